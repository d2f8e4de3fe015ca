-- VALUES, functions that give rows, select lists
VALUES (1, 'a'), (2, NULL), (NULL, 'c')
VALUES (1), (2.5), (3)
VALUES (1, 'a'), (2)
VALUES ('2020-01-01'), (NULL)
SELECT * FROM (VALUES (1, 'x'), (2, 'y')) AS s(a, b) ORDER BY a DESC
SELECT * FROM (VALUES (1, 'x'), (2, 'y')) AS s(a)
SELECT column1 + 1 FROM (VALUES (1), (2)) s
VALUES (1), (3), (2) ORDER BY 1 DESC
VALUES (1), (3), (2) ORDER BY column1 LIMIT 2
SELECT t.id, s.x FROM t, LATERAL (VALUES (t.a), (t.id)) AS s(x)
SELECT (VALUES (1)), 2
SELECT id FROM t WHERE (a, b) IN (VALUES (1, 'one'), (2, 'deux'))
SELECT id FROM t WHERE a IN (VALUES (1), (NULL))
SELECT a FROM t WHERE a NOT IN (VALUES (1), (3))
SELECT generate_series(1, 3)
SELECT generate_series(1, 3), generate_series(1, 2)
SELECT generate_series(1, 3), generate_series(5, 1, -2), 'x' AS k
SELECT generate_series(1, a), id FROM t
SELECT id, generate_series(1, a) + 1 AS g FROM t WHERE a IS NOT NULL
SELECT generate_series(1, 0)
SELECT generate_series(1, 10, 0)
SELECT generate_series(1, NULL)
SELECT generate_series(1, 4) AS g ORDER BY g DESC LIMIT 2
SELECT count(*) FROM generate_series(1, 1000)
SELECT sum(g) FROM generate_series(1, 1000) AS g WHERE g % 7 = 0
SELECT g.* FROM generate_series(1, 3) WITH ORDINALITY AS g(x, n)
SELECT * FROM generate_series(5, 7) WITH ORDINALITY
SELECT * FROM generate_series(1, 3) AS a, generate_series(1, a) AS b
SELECT * FROM ROWS FROM (generate_series(1, 3), generate_series(10, 11)) AS s(a, b)
SELECT * FROM ROWS FROM (generate_series(1, 3), unnest(ARRAY['x', 'y'])) WITH ORDINALITY AS s(a, b, n)
SELECT * FROM unnest(ARRAY[1, 2], ARRAY['a', 'b', 'c']) AS s(i, t)
SELECT * FROM unnest(ARRAY[1, 2, NULL]) WITH ORDINALITY AS s(i, n)
SELECT id, x FROM arrs, unnest(ai) AS x
SELECT id, x, n FROM arrs LEFT JOIN LATERAL unnest(at) WITH ORDINALITY AS s(x, n) ON n <> 2
SELECT id, unnest(ai) AS x FROM arrs
SELECT id, unnest(ai), unnest(at) FROM arrs
SELECT unnest('{{1,2},{3,4}}'::int[])
SELECT unnest(ARRAY[]::int[])
SELECT generate_series(1, 2) AS a, unnest(ARRAY[1, 2, 3]) AS b
SELECT generate_series(1, generate_series(1, 3))
SELECT generate_series(1, 3) + generate_series(10, 11)
SELECT CASE WHEN true THEN generate_series(1, 2) END
SELECT coalesce(generate_series(1, 2), 0)
SELECT count(*), generate_series(1, 2) FROM t
SELECT a, generate_series(1, count(*)) AS g FROM v GROUP BY a
SELECT DISTINCT generate_series(1, 3) % 2
SELECT g % 2 AS k, count(*) FROM generate_series(1, 5) g GROUP BY k
SELECT generate_series(1, 2), row_number() OVER (ORDER BY id) FROM t WHERE id < 3
SELECT * FROM generate_series('2024-01-30'::timestamp, '2024-05-01', '1 month')
SELECT * FROM generate_series('2024-03-30 00:00+01'::timestamptz, '2024-04-01 00:00+02', '12 hours')
SELECT * FROM generate_series(1.0, 2.0, 0.25)
SELECT * FROM generate_series(1, 3) s WHERE s > 1
SELECT s FROM generate_series(1, 3) s(s)
SELECT * FROM generate_subscripts('[2:4]={1,2,3}'::int[], 1) AS g
SELECT * FROM regexp_split_to_table('a,b,,c', ',') AS x
SELECT regexp_matches('foobarbequebaz', 'ba.', 'g')
SELECT * FROM regexp_matches('foobarbequebaz', '(b)(a.)', 'g') AS m
SELECT string_to_table('a,b,NULL,c', ',', 'NULL')
SELECT * FROM now() AS n WHERE n IS NULL
SELECT * FROM abs(-3) AS x
SELECT * FROM upper('a') WITH ORDINALITY
SELECT * FROM lower('A') AS s(x), LATERAL (SELECT x || 'b' AS y) q
SELECT x.* FROM (SELECT 1 AS a, 2 AS b) x
SELECT x FROM (SELECT 1 AS a, 'q' AS b) x
SELECT (x).b FROM (SELECT 1 AS a, 'q' AS b) x
SELECT (t).a, (t).b FROM t
SELECT t FROM t WHERE id < 3
SELECT t.* FROM t WHERE id < 3
SELECT t IS NULL, t IS NOT NULL, id FROM t
SELECT count(t) FROM t
SELECT u FROM t LEFT JOIN u ON t.a = u.a AND u.id < 3
SELECT count(u), count(u.*) FROM t LEFT JOIN u ON t.a = u.a
SELECT x = y FROM (SELECT a, b FROM v) x JOIN (SELECT a, b FROM w) y USING (a) WHERE false
SELECT ROW(1, 'a', NULL), ROW(), ROW(ROW(1, 2), 3)
SELECT ROW(v.*) FROM v WHERE a = 1
SELECT DISTINCT v FROM v
SELECT * FROM (SELECT ROW(a, b) AS r FROM v) s ORDER BY r
SELECT 1 AS "select", 2 AS "A b"
SELECT 1 a, 2 b
SELECT
SELECT FROM v
SELECT count(*) FROM (SELECT FROM v) s
SELECT * FROM v x(k, l) WHERE k = 1
SELECT x.k, l FROM v x(k, l) WHERE k = 1
SELECT x.k, b FROM v x(k) WHERE k = 1
SELECT * FROM (v JOIN w USING (a)) j WHERE a = 1
SELECT * FROM (v JOIN w USING (a)) j(p, q, r) WHERE p = 1
SELECT v.a FROM v JOIN w USING (a) AS j WHERE j.a = 1
SELECT j.* FROM v JOIN w USING (a, b) AS j
TABLE u
TABLE nothing
SELECT ALL a FROM v
SELECT * FROM ONLY v WHERE a = 9
SELECT array_agg(x) FROM (SELECT b AS x FROM t ORDER BY id DESC) s
SELECT string_agg(b, ',') FROM (SELECT b FROM t ORDER BY b DESC NULLS LAST) s
SELECT a, array_agg(id) FROM (SELECT a, id FROM t ORDER BY id DESC) s GROUP BY a ORDER BY a
SELECT a, string_agg(id::text, ' ') FROM (SELECT * FROM t ORDER BY id) s GROUP BY a
SELECT array_agg(k) FROM (SELECT k FROM big ORDER BY k DESC LIMIT 300) s
SELECT g, string_agg(k::text, ',') FROM (SELECT k, g FROM big ORDER BY k DESC) s WHERE g < 3 GROUP BY g
SELECT array_agg(x) FROM (VALUES (3), (1), (2)) s(x)
SELECT array_agg(x) FROM unnest(ARRAY[3, 1, 2]) x
SELECT (SELECT array_agg(x) FROM (SELECT v.b AS x FROM v WHERE v.a = t.a ORDER BY v.b DESC NULLS LAST) s) AS bs, id FROM t
SELECT ARRAY(SELECT b FROM v WHERE v.a = t.a ORDER BY b) AS bs, id FROM t
SELECT ARRAY(SELECT ai FROM arrs WHERE id = 1)
SELECT ARRAY(SELECT a FROM nothing)
SELECT row_number() OVER (w ROWS UNBOUNDED PRECEDING), sum(id) OVER (w ROWS 1 PRECEDING) FROM t WINDOW w AS (ORDER BY id)
SELECT id, sum(a) OVER (w ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM t WINDOW w AS (PARTITION BY b)
SELECT sum(a) OVER (w) FROM t WINDOW w AS (ORDER BY id ROWS 1 PRECEDING)
SELECT sum(a) OVER w FROM t WINDOW w AS (ORDER BY id ROWS 1 PRECEDING)
SELECT sum(a) OVER (w PARTITION BY b) FROM t WINDOW w AS (ORDER BY id)
SELECT sum(a) OVER (w ORDER BY b) FROM t WINDOW w AS (ORDER BY id)
SELECT id, sum(a) OVER w2 FROM t WINDOW w AS (PARTITION BY b), w2 AS (w ORDER BY id)
SELECT count() OVER () FROM t
SELECT count(*) OVER () FROM t
SELECT count(*) OVER () FROM nothing
SELECT row_number(1) OVER () FROM t
SELECT row_number() FROM t
SELECT sum(sum(a)) OVER (ORDER BY b) FROM t GROUP BY b
SELECT b, rank() OVER (ORDER BY count(*) DESC, b) FROM t GROUP BY b
SELECT sum(a) OVER (ORDER BY id), sum(id) OVER (ORDER BY a, id), count(*) OVER (PARTITION BY b) FROM t
SELECT id FROM t ORDER BY row_number() OVER (ORDER BY id DESC)
SELECT * FROM (SELECT id, row_number() OVER (PARTITION BY a ORDER BY id) AS r FROM t) s WHERE r = 1
SELECT * FROM (SELECT id, row_number() OVER (ORDER BY id) AS r FROM t) s WHERE id > 5
SELECT * FROM (SELECT a, id, count(*) OVER (PARTITION BY a) AS c FROM t) s WHERE a = 2
SELECT DISTINCT count(*) OVER (PARTITION BY a) FROM t
SELECT sum(a) OVER (ORDER BY id ROWS -1 PRECEDING) FROM t
SELECT sum(a) OVER (ORDER BY id ROWS NULL PRECEDING) FROM t
SELECT sum(a) OVER (ORDER BY id RANGE -1 PRECEDING) FROM t
SELECT sum(a) OVER (ORDER BY id GROUPS -1 PRECEDING) FROM t
SELECT sum(a) OVER (ORDER BY id, a RANGE 1 PRECEDING) FROM t
SELECT sum(a) OVER (RANGE 1 PRECEDING) FROM t
SELECT sum(a) OVER (GROUPS 1 PRECEDING) FROM t
SELECT sum(a) OVER (ORDER BY b RANGE 1 PRECEDING) FROM t
SELECT ntile(0) OVER () FROM t
SELECT nth_value(a, 0) OVER (ORDER BY id) FROM t
SELECT sum(DISTINCT a) OVER () FROM t
SELECT string_agg(b, ',' ORDER BY b) OVER () FROM t
SELECT first_value(a) FILTER (WHERE true) OVER () FROM t
SELECT id FROM t WHERE row_number() OVER () = 1
SELECT max(row_number() OVER ()) FROM t
SELECT lag(a, 1, 0) IGNORE NULLS OVER (ORDER BY id) FROM t
SELECT max(1.5), max(1.50), max(float8 '0'), max(float8 '-0'), max(ARRAY[1.0]), max(ARRAY[1.00]) FROM t
SELECT max(float8 'NaN'), min(real 'NaN'), max(ARRAY[float8 'NaN']) FROM t
SELECT id, lag(float8 'NaN') OVER (ORDER BY id) AS x FROM t ORDER BY id
SELECT f + float8 'NaN' AS x, count(*) FROM t GROUP BY f + float8 'NaN' ORDER BY 1
SELECT DISTINCT f + float8 'NaN' AS x FROM t ORDER BY 1
SELECT id, greatest(f, 'NaN', a) AS x FROM t ORDER BY id, x
SELECT a * 1.5 AS x, a * 1.50 AS y FROM t WHERE id < 3 GROUP BY a * 1.5, a * 1.50 ORDER BY 1
WITH w (x, y) AS (SELECT greatest(1.5::float8, 'NaN'::float8), id FROM t ORDER BY 1, 2 LIMIT 3) SELECT 1 AS x FROM w JOIN w AS v ON true
SELECT c, count(*), grouping(c) FROM (SELECT 'x'::text AS c FROM t) AS s GROUP BY CUBE (c) ORDER BY 1
SELECT c, a, count(*) FROM (SELECT 1 AS c, a FROM t) AS s GROUP BY GROUPING SETS ((c), (a)) ORDER BY 1, 2
SELECT c + 1 AS x, 1 AS y, count(*) FROM (SELECT 1 AS c FROM t) AS s GROUP BY ROLLUP (c) HAVING c IS NULL
SELECT x, y, count(*) FROM (SELECT a AS x, a AS y FROM t) AS s GROUP BY GROUPING SETS ((x), (y)) ORDER BY 1, 2
SELECT 1 AS c, count(*) FROM t GROUP BY ROLLUP (1)
