-- rows, NULL, CASE, subqueries by hand
SELECT (1, 2) = (1, 2), (1, NULL) = (1, 2), (1, NULL) = (2, NULL), (NULL, 1) < (1, 2)
SELECT (1, 2) < (1, 3), (1, NULL) < (2, 0), (1, NULL) < (1, 0), (2, NULL) > (1, 9)
SELECT (1, 2) <= (1, NULL), (1, 2) >= (0, NULL), ROW(1) = ROW(1), (1, 'a') <> (1, 'b')
SELECT (1, 2) IS DISTINCT FROM (1, NULL), (NULL, NULL) IS NOT DISTINCT FROM (NULL, NULL)
SELECT (1, 2, 3) = (1, 2)
SELECT ROW(NULL, NULL) IS NULL, ROW(1, NULL) IS NULL, ROW(1, NULL) IS NOT NULL, ROW() IS NULL
SELECT (1, 2) IN ((1, 2), (3, 4)), (1, NULL) IN ((1, 2)), (1, 2) NOT IN ((1, NULL), (3, 4)), (5, 2) NOT IN ((1, NULL))
SELECT (a, b) IN ((1, 'one'), (2, 'x'), (NULL, NULL)) AS x, id FROM t
SELECT id FROM t WHERE (a, id) > (2, 3)
SELECT id FROM t WHERE (a, b) = (2, 'two')
SELECT id FROM t WHERE ROW(a, b) IS DISTINCT FROM ROW(2, 'two')
SELECT (SELECT 1, 2)
SELECT (SELECT a FROM v)
SELECT (SELECT a FROM nothing)
SELECT (SELECT a FROM v WHERE a = 9)
SELECT id, (SELECT v.b FROM v WHERE v.a = t.a ORDER BY v.b NULLS LAST LIMIT 1) AS x FROM t
SELECT id, (SELECT v.b FROM v WHERE v.a = t.a) AS x FROM t WHERE id = 8
SELECT id, (SELECT v.b FROM v WHERE v.a = t.a) AS x FROM t
SELECT id, (SELECT max(v.b) FROM v WHERE v.a = t.a OFFSET 1) AS x FROM t
SELECT id, (SELECT count(*) FROM v WHERE v.a = t.a AND EXISTS (SELECT 1 FROM w WHERE w.a = v.a AND w.b = t.b)) AS x FROM t
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM v WHERE v.a = t.a AND EXISTS (SELECT 1 FROM w WHERE w.a = v.a AND w.w > t.id))
SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM v WHERE v.a = t.a AND NOT EXISTS (SELECT 1 FROM w WHERE w.a = v.a AND w.b = t.b))
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM v WHERE EXISTS (SELECT 1 FROM w WHERE w.a = t.a AND w.b = v.b))
SELECT id FROM t WHERE a = (SELECT max(a) FROM t x WHERE x.b = t.b)
SELECT id FROM t WHERE a = (SELECT a FROM v WHERE v.b = t.b LIMIT 1)
SELECT id FROM t x WHERE 1 < (SELECT count(*) FROM t y WHERE y.a = x.a AND y.b = x.b)
SELECT (SELECT sum(t.a)) FROM t
SELECT (SELECT count(t.a) FROM nothing) FROM t
SELECT a, (SELECT sum(t.id) FROM v LIMIT 1) FROM t GROUP BY a
SELECT a, (SELECT max(v.b) FROM v WHERE v.a = t.a) FROM t GROUP BY a
SELECT a, (SELECT t.b) FROM t GROUP BY a
SELECT a, count(*) FROM t GROUP BY a HAVING a IN (SELECT a FROM v)
SELECT a, count(*) FROM t GROUP BY a HAVING count(*) > (SELECT count(*) FROM v WHERE v.a = t.a)
SELECT count(*) FROM t GROUP BY a ORDER BY (SELECT count(*) FROM v WHERE v.a = t.a), 1
SELECT max((SELECT v.b FROM v WHERE v.a = t.a ORDER BY 1 LIMIT 1)) FROM t
SELECT a FROM t GROUP BY a HAVING EXISTS (SELECT 1 FROM v WHERE v.a = t.a AND v.b = min(t.b))
SELECT id FROM t ORDER BY (SELECT count(*) FROM v WHERE v.a = t.a), id
SELECT id FROM t LIMIT (SELECT 2)
SELECT CASE WHEN EXISTS (SELECT 1 FROM v WHERE v.a = t.a) THEN 'y' ELSE 'n' END AS x, id FROM t
SELECT EXISTS (SELECT 1 / 0)
SELECT EXISTS (SELECT FROM nothing), EXISTS (SELECT FROM v), NOT EXISTS (SELECT 1 FROM v WHERE false)
SELECT EXISTS (SELECT count(*) FROM nothing), EXISTS (SELECT 1 FROM nothing GROUP BY a)
SELECT 1 IN (SELECT a FROM v), 100 IN (SELECT a FROM v), NULL IN (SELECT a FROM v), NULL IN (SELECT a FROM nothing)
SELECT 1 NOT IN (SELECT a FROM v), 100 NOT IN (SELECT a FROM v), NULL NOT IN (SELECT a FROM nothing)
SELECT 1 = ANY (ARRAY[1, NULL]), 2 = ANY (ARRAY[1, NULL]), 2 = ANY ('{}'::int[]), NULL = ANY ('{}'::int[]), 1 = ANY (NULL::int[])
SELECT 1 <> ALL (ARRAY[1, NULL]), 2 <> ALL (ARRAY[1, NULL]), 2 > ALL ('{}'::int[]), 2 > ALL (ARRAY[1, NULL])
SELECT 'b' LIKE ANY (ARRAY['a%', 'b%']), 'b' LIKE ALL (ARRAY['a%', 'b%'])
SELECT id FROM t WHERE b LIKE ANY (ARRAY['t%', 'o%'])
SELECT id FROM t WHERE a = ANY (ARRAY[1, 3, NULL]) AND NOT (id = ANY (ARRAY[1]))
SELECT id FROM t WHERE a = ANY (SELECT unnest(ai) FROM arrs)
SELECT NULL = NULL, NULL <> 1, NULL IS NULL, NULL AND false, NULL OR true, NOT NULL
SELECT NULL::int + 1, NULL || 'a', coalesce(NULL, NULL, 3), nullif(1, 1), nullif(1, 2), nullif(NULL, 1)
SELECT CASE 1 WHEN 1 THEN 'a' WHEN 2 THEN 'b' END, CASE 3 WHEN 1 THEN 'a' END, CASE NULL WHEN NULL THEN 1 ELSE 2 END
SELECT CASE WHEN a = 0 THEN 1 / a ELSE a END FROM t WHERE a IS NOT NULL
SELECT CASE WHEN a > 2 THEN 'big' WHEN a > 1 THEN 'mid' WHEN a IS NULL THEN NULL ELSE 'small' END AS s, id FROM t
SELECT CASE a WHEN 1 THEN b WHEN 2 THEN id::text ELSE 'z' END FROM t
SELECT id FROM t WHERE CASE WHEN a = 0 THEN false ELSE 10 / nullif(a, 0) > 3 END
SELECT greatest(1, 2.5, NULL), least('b', 'a'), greatest(NULL, NULL), greatest('2020-01-01'::date, '2021-01-01'::timestamp)
SELECT 1 BETWEEN 0 AND 2, 1 BETWEEN 2 AND 0, 1 BETWEEN SYMMETRIC 2 AND 0, NULL BETWEEN 1 AND 2, 5 BETWEEN NULL AND 2, 1 NOT BETWEEN 2 AND 3
SELECT 1 IN (1, NULL), 2 IN (1, NULL), 2 NOT IN (1, NULL), 1 IN (1.0, 2), 'a' IN ('a', 'b')
SELECT id FROM t WHERE a IN (1, 2, NULL) AND b NOT IN ('one', 'x')
SELECT 1 IS DISTINCT FROM NULL, NULL IS DISTINCT FROM NULL, 1 IS NOT DISTINCT FROM 1.0
SELECT true IS TRUE, NULL::bool IS TRUE, NULL::bool IS NOT TRUE, NULL::bool IS UNKNOWN, (1 = 1) IS NOT FALSE
SELECT num_nulls(1, NULL, 'a'), num_nonnulls(NULL, NULL), num_nulls(VARIADIC ARRAY[1, NULL])
SELECT id FROM t WHERE (a IS NULL) = (b IS NULL)
SELECT id FROM t WHERE a IS NOT DISTINCT FROM NULL
SELECT count(*) FROM t, u WHERE t.a IS NOT DISTINCT FROM u.a
SELECT t.id, u.id FROM t FULL JOIN u ON t.a IS NOT DISTINCT FROM u.a
SELECT t.id, u.id FROM t FULL JOIN u ON t.a < u.a
SELECT t.id, u.id FROM t FULL JOIN u ON t.a = u.a OR t.b = u.b
SELECT t.id, u.id FROM t FULL JOIN u ON t.a = u.a AND t.id < 5
SELECT t.id, u.id FROM t FULL JOIN u ON t.a = 2
SELECT t.id, u.id FROM t FULL JOIN u ON NULL
SELECT * FROM v FULL JOIN w USING (a) WHERE a IS NULL
SELECT * FROM v CROSS JOIN nothing
SELECT count(*) FROM v CROSS JOIN w
SELECT count(*) FROM v, w, u WHERE v.a = w.a AND w.b = u.b
SELECT * FROM t NATURAL JOIN u NATURAL JOIN v
SELECT a, b FROM t NATURAL FULL JOIN v NATURAL LEFT JOIN w
SELECT v.a, x.a FROM v LEFT JOIN v x ON v.a = x.a + 1 AND v.b IS NOT NULL
SELECT t.id FROM t LEFT JOIN u ON t.a = u.a WHERE u.id IS NULL
SELECT t.id FROM t LEFT JOIN u ON t.a = u.a WHERE u.id = 2
SELECT t.id FROM t LEFT JOIN u ON t.a = u.a AND u.b = 'deux' WHERE coalesce(u.id, 0) < 3
SELECT t.id, q.* FROM t LEFT JOIN (SELECT a, 'const' AS k FROM u) q ON q.a = t.a
SELECT t.id, q.k FROM t LEFT JOIN (SELECT a, 'const' AS k FROM u) q ON q.a = t.a WHERE q.k IS NULL
SELECT t.id, q.k, r.k FROM t LEFT JOIN (SELECT a, 1 AS k FROM u) q ON q.a = t.a LEFT JOIN (SELECT a, 2 AS k FROM v) r ON r.a = q.k
SELECT t.id, u.id, v.a FROM t JOIN u ON t.a = u.a LEFT JOIN v ON v.a = u.a AND v.b = t.b WHERE t.id > 1
SELECT x.id FROM t x, t y WHERE x.id = y.id AND y.a = 2
SELECT t.id FROM t JOIN LATERAL (SELECT 1 WHERE t.a = 1) s ON true
SELECT t.id, s.m FROM t CROSS JOIN LATERAL (SELECT max(v.a) AS m FROM v WHERE v.b = t.b) s
SELECT t.id, s.n FROM t LEFT JOIN LATERAL (SELECT row_number() OVER (ORDER BY v.b) AS n FROM v WHERE v.a = t.a) s ON s.n = 2
SELECT t.id, s.x, r.y FROM t, LATERAL (SELECT t.a * 2 AS x) s, LATERAL (SELECT s.x + t.id AS y) r
SELECT t.id FROM t, LATERAL (SELECT DISTINCT v.a FROM v WHERE v.a >= t.a) s GROUP BY t.id HAVING count(*) > 2
SELECT * FROM (SELECT 1 AS a) x LEFT JOIN (SELECT 1 AS a, 2 AS b WHERE false) y ON x.a = y.a
SELECT id FROM t WHERE id IN (SELECT id FROM u WHERE a IN (SELECT a FROM v WHERE b IN (SELECT b FROM w)))
SELECT id FROM t WHERE (SELECT (SELECT t.a + u.a FROM u WHERE u.id = t.id)) > 2
SELECT id, (SELECT string_agg(x.b, ',' ORDER BY x.b) FROM (SELECT DISTINCT v.b FROM v WHERE v.a = t.a) x) AS bs FROM t
SELECT id, (SELECT ROW(v.a, v.b) FROM v WHERE v.b = t.b AND v.a = 2) AS r FROM t
SELECT (SELECT v FROM v WHERE a = 9), (SELECT (v).b FROM v WHERE a = 9)
SELECT id FROM t WHERE t IN (SELECT x FROM t x WHERE x.a = 2)
SELECT t.id FROM t WHERE EXISTS (SELECT 1 FROM v WHERE v.a = t.a LIMIT 0)
SELECT t.id FROM t WHERE EXISTS (SELECT 1 FROM v WHERE v.a = t.a OFFSET 1)
SELECT t.id FROM t WHERE t.a IN (SELECT v.a FROM v WHERE v.a = t.a OFFSET 1)
SELECT t.id FROM t WHERE t.a IN (SELECT sum(v.a) FROM v GROUP BY v.b)
SELECT t.id FROM t WHERE (t.a, t.id) IN (SELECT v.a, count(*) FROM v GROUP BY v.a)
SELECT t.id FROM t WHERE t.a IN (SELECT DISTINCT v.a FROM v WHERE v.b IS NOT NULL)
SELECT t.id FROM t WHERE t.a IN (SELECT u.a FROM u WHERE u.x > 10) OR t.a IN (SELECT w.a FROM w WHERE w.w > 3)
SELECT t.id FROM t WHERE t.a::bigint IN (SELECT x FROM u) OR t.a::numeric IN (SELECT a FROM v)
SELECT t.id FROM t WHERE t.n IN (SELECT a FROM v)
SELECT t.id FROM t WHERE t.f IN (SELECT n FROM nums)
SELECT t.id FROM t WHERE t.b IN (SELECT c FROM u)
SELECT t.id FROM t WHERE t.b NOT IN (SELECT b FROM u WHERE b IS NOT NULL)
SELECT u.id FROM u WHERE u.c IN ('ab', 'cd  ') OR u.c = 'ef' OR u.b = 'two '
SELECT c, length(c), c || '|', c::text || '|', c = 'ab', c = 'ab    ', c LIKE 'ab', octet_length(c) FROM u
SELECT count(*) FROM u x JOIN u y ON x.c = y.c
SELECT count(*) FROM u x JOIN strs y ON x.c = y.c
SELECT c, count(*) FROM u GROUP BY c
SELECT DISTINCT f FROM t WHERE f = 0 OR f = 'NaN'
SELECT x.id, y.id FROM t x JOIN t y ON x.f = y.f
SELECT x.id, y.id FROM t x JOIN t y ON x.n = y.n
SELECT x.id, y.id FROM nums x JOIN nums y ON x.f8 = y.f4
SELECT x.id, y.id FROM nums x JOIN nums y ON x.n = y.i8
SELECT x.id, y.id FROM nums x JOIN nums y ON x.i2 = y.i8
SELECT n, count(*) FROM nums GROUP BY n
SELECT f8, count(*) FROM nums GROUP BY f8
SELECT DISTINCT n FROM (VALUES (1.0), (1.00), (1)) s(n)
SELECT n FROM (VALUES (1.0), (1.00)) s(n) UNION ALL SELECT 1.000
SELECT iv, count(*) FROM (VALUES (interval '1 day'), (interval '24 hours'), (interval '30 days'), (interval '1 month')) s(iv) GROUP BY iv
SELECT ai, count(*) FROM arrs GROUP BY ai
SELECT x.id, y.id FROM arrs x JOIN arrs y ON x.ai = y.ai
SELECT tm, count(*) FROM times GROUP BY tm
