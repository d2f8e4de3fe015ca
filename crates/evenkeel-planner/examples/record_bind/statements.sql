-- names
SELECT nme FROM emp
SELECT emp.nme FROM emp
SELECT e.name FROM emp
SELECT emp.name FROM emp e
SELECT x.name FROM emp e
SELECT id FROM emp, dept
SELECT emp.id FROM emp, emp
SELECT emp.id FROM emp, other.emp
SELECT public.emp.id, other.emp.label FROM public.emp, other.emp
SELECT other.emp.label FROM other.emp e
SELECT nosuch.emp.id FROM emp
SELECT postgres.public.emp.id FROM emp
SELECT a.b.c.d.e FROM emp
SELECT * FROM nosuch
SELECT * FROM nosuch.emp
SELECT * FROM other.nosuch
SELECT * FROM postgres.public.emp
SELECT *
SELECT nosuch
SELECT nosuch.*
SELECT emp.* FROM emp e
SELECT public.emp.* FROM emp
SELECT e.* FROM emp e, LATERAL (SELECT e.id AS k) s
SELECT * FROM emp e, (SELECT e.id) s
SELECT * FROM emp e, (SELECT id FROM dept WHERE dept_id = 1) s
SELECT * FROM emp e, (SELECT salary) s
SELECT * FROM emp e JOIN dept d ON e.id = x.id
SELECT * FROM emp e JOIN dept d ON e.dept_id = d.id JOIN ord o ON o.emp_id = e.id
SELECT * FROM emp e, dept d JOIN ord o ON o.emp_id = e.id
SELECT * FROM emp e RIGHT JOIN LATERAL (SELECT e.id) s ON true
SELECT * FROM emp e FULL JOIN LATERAL (SELECT id FROM dept WHERE dept.id = e.id) s ON true
SELECT nam, sallary FROM emp
SELECT budgt FROM emp, dept
SELECT tota FROM ord
SELECT e.idd FROM emp e
SELECT emp_name FROM emp
SELECT departmnt FROM dept
SELECT emp FROM emp
SELECT e FROM emp e
SELECT (e).name FROM emp e
SELECT (e).nosuch FROM emp e
SELECT e.nosuch FROM emp e
SELECT (e).* FROM emp e
SELECT (e.name).x FROM emp e
SELECT name(e) FROM emp e
SELECT salary(emp) FROM emp
SELECT count(e) FROM emp e
SELECT count(e.*) FROM emp e
SELECT ROW(e.*, 1) FROM emp e
SELECT ROW(e, 1) FROM emp e
SELECT (ROW(1, 'a')).f1
SELECT (ROW(1, 'a')).f2
SELECT (ROW(1, 'a')).f3
SELECT (ROW(1, 'a')).*
SELECT (1).*
SELECT ('a').x
SELECT (SELECT e FROM emp e LIMIT 1)
SELECT s.name FROM (SELECT * FROM emp) s
SELECT s.x FROM (SELECT id AS x, name FROM emp) s WHERE s.name = 'a'
SELECT t.a FROM (VALUES (1, 'x'), (2, 'y')) t(a, b)
SELECT t.c FROM (VALUES (1, 'x'), (2, 'y')) t(a, b)
SELECT * FROM (VALUES (1, 'x')) t(a, b, c)
SELECT * FROM (VALUES (1, 'x'))
SELECT column1 FROM (VALUES (1), (2.5)) AS v
SELECT * FROM emp AS e(a, b, c)
SELECT e.a, e.c, salary FROM emp AS e(a, b, c)
SELECT e.id FROM emp AS e(a, b, c)
SELECT * FROM emp AS e(a, b, c, d, e, f, g, h)
SELECT * FROM (emp JOIN dept USING (id)) AS j(a, b, c, d, e, f, g, h, i, j, k)
SELECT a.id FROM emp a, emp b WHERE id = 1
SELECT a.id FROM emp a, emp a
SELECT * FROM emp JOIN emp ON true
SELECT * FROM emp JOIN dept USING (id, id)
SELECT * FROM emp JOIN dept USING (nosuch)
SELECT * FROM emp JOIN dept USING (floor)
SELECT * FROM emp JOIN dept USING (salary)
SELECT * FROM (emp a JOIN emp b ON true) JOIN dept USING (id)
SELECT * FROM emp JOIN (SELECT 'x'::text AS id) s USING (id)
SELECT * FROM emp JOIN (SELECT 1::bigint AS id) s USING (id)
SELECT * FROM emp FULL JOIN (SELECT 1::bigint AS id) s USING (id)
SELECT id FROM emp RIGHT JOIN (SELECT 1::bigint AS id) s USING (id)
SELECT emp.id, s.id, id FROM emp FULL JOIN (SELECT 1::bigint AS id) s USING (id)
SELECT * FROM emp CROSS JOIN dept
SELECT * FROM emp NATURAL JOIN dept NATURAL JOIN ord
SELECT * FROM emp e LEFT JOIN dept d USING (id) LEFT JOIN ord o USING (id)
SELECT d.* FROM emp e LEFT JOIN dept d USING (id)
SELECT ctd FROM emp
SELECT "Name" FROM emp
SELECT e."NAME" FROM emp e
-- literals and types
SELECT 'a', 1, 1.5, 99999999999, 9999999999999999999999, true, NULL
SELECT 'abc'::int
SELECT int 'x1'
SELECT '2020-13-01'::date
SELECT date '2020-02-30'
SELECT 'maybe'::bool
SELECT '1e400'::float8
SELECT 'zz'::uuid
SELECT '1 fortnight'::interval
SELECT '99999'::int2
SELECT 1 + 'x'
SELECT 1 + '2'
SELECT '1' + '2'
SELECT 'a' || 'b'
SELECT 'a' || 1
SELECT 1 || 2
SELECT NULL || NULL
SELECT NULL + NULL
SELECT 'a' = 'b'
SELECT 1 = 'a'
SELECT 1::nosuch
SELECT 1::other.emp_t
SELECT 1::nosuch.thing
SELECT 1::nosuch[]
SELECT '1'::varchar(0)
SELECT '1'::varchar(20000000)
SELECT '1'::char(3), '1'::bpchar, '1'::character varying
SELECT '1'::numeric(0)
SELECT '1'::numeric(1001)
SELECT '1'::numeric(5, 2000)
SELECT '1'::numeric(5, -2)
SELECT '1'::numeric(5, 2, 1)
SELECT '1'::int(4)
SELECT '1'::text(5)
SELECT '1'::timestamp(9)
SELECT now()::timestamptz(3), now()::timestamp(0)
SELECT '1'::pg_catalog.int4
SELECT '{1,2}'::int[], '{a}'::text[]
SELECT '{1,x}'::int[]
SELECT 1::int[]
SELECT ARRAY[1,2]::bigint[]
SELECT ARRAY[1,2]::text[]
SELECT ARRAY['1','x']::int[]
SELECT ARRAY[]
SELECT ARRAY[]::int[]
SELECT ARRAY[1, 'x']
SELECT ARRAY[1, 2.5, 3]
SELECT ARRAY[[1,2],[3,4]]
SELECT ARRAY[ARRAY[1], ARRAY[2]]
SELECT ARRAY[[1,2],[3.5,4]]
SELECT ARRAY[1, ARRAY[2]]
SELECT ARRAY[NULL]
SELECT ARRAY(SELECT id FROM emp)
SELECT ARRAY(SELECT id, name FROM emp)
SELECT ARRAY(SELECT ai FROM kinds)
SELECT ai[1], ai[1:2], ai[:2], ai[2:], ai[1][2] FROM kinds
SELECT at[1] FROM kinds
SELECT ai['x'] FROM kinds
SELECT ai[d] FROM kinds
SELECT ai[1.5] FROM kinds
SELECT t[1] FROM kinds
SELECT i4[1] FROM kinds
SELECT (ai || 1)[1] FROM kinds
SELECT CAST(true AS int), CAST(1 AS bool)
SELECT CAST(true AS date)
SELECT CAST(1.5 AS bool)
SELECT CAST(d AS int) FROM kinds
SELECT d::text, i4::text, b::text, ai::text FROM kinds
SELECT t::date, t::int FROM kinds
SELECT int4(1.5), text(1), float8('1.5'), date('2020-01-01')
SELECT int4(b) FROM kinds
SELECT date(t) FROM kinds
SELECT numeric(i4) FROM kinds
SELECT varchar(t) FROM kinds
SELECT t COLLATE "C", t COLLATE "nosuch" FROM kinds
SELECT t COLLATE "C" FROM kinds
SELECT i4 COLLATE "C" FROM kinds
SELECT t COLLATE nosuch.x FROM kinds
SELECT 'x' COLLATE "C"
SELECT current_date, current_timestamp, localtimestamp, localtime
SELECT current_timestamp(3), localtimestamp(0)
SELECT current_user, session_user, user, current_role, current_schema, current_catalog
SELECT ts AT TIME ZONE 'UTC', tz AT TIME ZONE 'UTC' FROM kinds
SELECT d AT TIME ZONE 'UTC' FROM kinds
SELECT t AT TIME ZONE 'UTC' FROM kinds
SELECT i4 AT TIME ZONE 'UTC' FROM kinds
SELECT tz AT TIME ZONE interval '1 hour' FROM kinds
SELECT tz AT LOCAL FROM kinds
SELECT extract(year FROM d), extract(epoch FROM tz), extract(hour FROM iv) FROM kinds
SELECT extract(year FROM t) FROM kinds
SELECT position('a' IN t), substring(t FROM 2 FOR 3), trim(t), trim(both 'x' from t) FROM kinds
SELECT substring(t FROM 'a.c'), substring(by FROM 1) FROM kinds
SELECT overlay(t PLACING 'x' FROM 1) FROM kinds
SELECT substring(i4 FROM 1) FROM kinds
SELECT position(1 IN 2)
SELECT (ts, ts) OVERLAPS (ts, ts) FROM kinds
-- operators and functions
SELECT nosuch(1)
SELECT nosuch()
SELECT nosuch(1, 'x', NULL, t) FROM kinds
SELECT nosuch.f(1)
SELECT pg_catalog.lower('A')
SELECT pg_catalog.nosuch('A')
SELECT other.lower('A')
SELECT lower()
SELECT lower('a', 'b')
SELECT lower(1)
SELECT lower(*)
SELECT lower(DISTINCT 'a')
SELECT lower('a' ORDER BY 1)
SELECT lower('a') FILTER (WHERE true)
SELECT lower('a') OVER ()
SELECT lower(VARIADIC ARRAY['a'])
SELECT concat(VARIADIC ARRAY['a', 'b'])
SELECT concat(VARIADIC 'a')
SELECT concat('a', 1, NULL, true)
SELECT concat_ws(',', 'a', 1)
SELECT format('%s', 1), format('%s %s', VARIADIC ARRAY[1, 2])
SELECT lower(x => 'a')
SELECT nosuch(x => 1)
SELECT round(1.5), round(1.5::float8), round(1), round(1.55, 1), round('1.5')
SELECT round(1.5::float8, 1)
SELECT abs(-1), abs(-1.5), abs('-1'), abs(-1::int2)
SELECT sqrt(2), sqrt(2.0), sqrt('2')
SELECT length('abc'), length(by), length(nm) FROM kinds
SELECT max(t), min(d), sum(i2), sum(i4), sum(i8), sum(f4), sum(n), avg(i4), avg(f8) FROM kinds
SELECT sum(t) FROM kinds
SELECT sum('1')
SELECT max(NULL)
SELECT count()
SELECT count(*), count(1), count(DISTINCT t) FROM kinds
SELECT count(1, 2)
SELECT count(VARIADIC ARRAY[1])
SELECT sum(*) FROM kinds
SELECT array_agg(i4), string_agg(t, ','), bool_and(b), every(b) FROM kinds
SELECT array_agg(i4 ORDER BY t DESC), string_agg(DISTINCT t, ',' ORDER BY t) FROM kinds
SELECT string_agg(DISTINCT t, ',' ORDER BY i4) FROM kinds
SELECT string_agg(t) FROM kinds
SELECT array_append(ai, 1), array_append(ai, 1::int8), array_append(ai, 'x') FROM kinds
SELECT array_append(at, 1) FROM kinds
SELECT array_length(ai, 1), array_upper(at, 1), cardinality(ai), array_to_string(ai, ',') FROM kinds
SELECT ai || ai, ai || 1, 1 || ai, at || 'x'::text FROM kinds
SELECT ai || at FROM kinds
SELECT ai = ai, ai = '{1}', ai @> ARRAY[1], ai && '{1}' FROM kinds
SELECT ai = at FROM kinds
SELECT i4 = ANY (ai), i4 = ALL ('{1,2}'), t = ANY (ARRAY['a']), i8 = ANY (ai) FROM kinds
SELECT i4 = ANY (at) FROM kinds
SELECT i4 = ANY (i4) FROM kinds
SELECT i4 + ANY (ai) FROM kinds
SELECT t LIKE 'a%', t NOT LIKE 'b', t ILIKE 'c', t SIMILAR TO 'd', t LIKE 'x' ESCAPE '!' FROM kinds
SELECT i4 LIKE 'a' FROM kinds
SELECT i4 LIKE 'a' ESCAPE 'b' FROM kinds
SELECT c LIKE 'a', v LIKE 'b', nm LIKE 'c', by LIKE 'd' FROM kinds
SELECT t SIMILAR TO 'a' ESCAPE '#' FROM kinds
SELECT i4 OPERATOR(pg_catalog.+) 1 FROM kinds
SELECT i4 OPERATOR(nosuch.+) 1 FROM kinds
SELECT i4 OPERATOR(other.+) 1 FROM kinds
SELECT i4 <=> 1 FROM kinds
SELECT -t FROM kinds
SELECT NOT i4 FROM kinds
SELECT NOT 'true', NOT NULL
SELECT i4 AND b FROM kinds
SELECT b OR t FROM kinds
SELECT 'x' AND true
SELECT i4 IS TRUE FROM kinds
SELECT b IS TRUE, b IS NOT FALSE, b IS UNKNOWN, NULL IS NULL, 'a' IS NOT NULL FROM kinds
SELECT 'x' IS TRUE
SELECT d + 1, d - d, d + iv, ts - ts, ts + iv, iv * 2, d + tm FROM kinds
SELECT d + d FROM kinds
SELECT ts + 1 FROM kinds
SELECT d - '2020-01-01', ts - '2020-01-01', iv + '1 day' FROM kinds
SELECT tz - tz, tz > ts, d < ts, tz = d FROM kinds
SELECT now() - '1 day', now() + '1 day'::interval
SELECT i2 + i4, i4 + i8, i4 + f4, i4 + n, f4 + f8, n + f8 FROM kinds
SELECT b = 1 FROM kinds
SELECT b = 't', b = 'x' FROM kinds
SELECT t = v, t = c, v = c, nm = t, t = nm FROM kinds
SELECT u = '00000000-0000-0000-0000-000000000000', u = 'x' FROM kinds
SELECT o = 1, o = 'x' FROM kinds
SELECT i4 IN (1, 2, 3), i4 IN ('1', 2), i4 IN (1), i4 NOT IN (1, i8) FROM kinds
SELECT i4 IN ('a', 'b') FROM kinds
SELECT i4 IN (1, 'a') FROM kinds
SELECT t IN (1, 2) FROM kinds
SELECT i4 IN (1, 2.5), n IN (1, 2), d IN ('2020-01-01', '2020-01-02') FROM kinds
SELECT (1, 2) IN ((1, 2), (3, 4)), (i4, t) IN ((1, 'a'), (2, 'b')) FROM kinds
SELECT (1, 2) IN ((1, 2, 3))
SELECT (1, 2) = (1, 2), (1, 2) < (3, 4), (1, 'a') <> (2, 'b'), ROW(1) = ROW(2)
SELECT (1, 2) = (1, 2, 3)
SELECT ROW() = ROW()
SELECT (1, 2) + (1, 2)
SELECT (1, 2) LIKE (1, 2)
SELECT (1, 'a') = (1, 2)
SELECT (1, 2) IS DISTINCT FROM (1, 3), (1, 2) IS NULL, ROW(1, NULL) IS NOT NULL
SELECT (1, 2) IS DISTINCT FROM (1, 3, 4)
SELECT i4 IS DISTINCT FROM NULL, NULL IS NOT DISTINCT FROM i4 FROM kinds
SELECT i4 BETWEEN 1 AND 2, i4 NOT BETWEEN SYMMETRIC 1 AND '2', d BETWEEN 'today' AND ts FROM kinds
SELECT i4 BETWEEN 'a' AND 'b' FROM kinds
SELECT i4 BETWEEN t AND 2 FROM kinds
SELECT CASE i4 WHEN 1 THEN 'a' WHEN 2 THEN 'b' END, CASE WHEN b THEN 1 ELSE 2.5 END FROM kinds
SELECT CASE i4 WHEN 'x' THEN 1 END FROM kinds
SELECT CASE i4 WHEN t THEN 1 END FROM kinds
SELECT CASE WHEN i4 THEN 1 END FROM kinds
SELECT CASE WHEN b THEN 1 ELSE 'x' END FROM kinds
SELECT CASE WHEN b THEN 1 ELSE t END FROM kinds
SELECT CASE 'a' WHEN 'b' THEN 1 END
SELECT CASE WHEN b THEN v5 ELSE v5 END, CASE WHEN b THEN v5 END, coalesce(v5, v5), greatest(n2, n2) FROM kinds
SELECT CASE WHEN b THEN name ELSE name END FROM kinds, emp
SELECT coalesce(i4, t) FROM kinds
SELECT coalesce(NULL, NULL), coalesce('a', 'b'), greatest(1, 2.5), least('a', t) FROM kinds
SELECT nullif(1, 2), nullif('a', 'b'), nullif(i4, '5'), nullif(i2, 2.5) FROM kinds
SELECT nullif(i4, t) FROM kinds
SELECT greatest(1, 'x')
-- parameters
SELECT $1
SELECT $1 + 1, $2 || 'a', $1
SELECT $1, $1 + 1
SELECT $1::int, $1::text
SELECT $2
SELECT $0
SELECT $1 = $2
SELECT $1 IS NULL
SELECT $1::int IS NULL, $1
SELECT ARRAY[$1, 2]
SELECT * FROM emp WHERE id = $1 AND name = $2 AND salary > $3 AND hired < $4
SELECT * FROM emp WHERE id = $1 OR name = $1
SELECT * FROM emp LIMIT $1 OFFSET $2
SELECT lower($1), abs($2::int), round($3, 2)
SELECT abs($1)
SELECT concat($1)
SELECT CASE WHEN $1 THEN $2 ELSE 1 END
SELECT coalesce($1, $2)
SELECT $1 UNION SELECT 2
SELECT $1 FROM emp GROUP BY $1
SELECT * FROM (SELECT $1) s(x) WHERE x = 1
VALUES ($1, 2), (3, $2)
-- aggregates
SELECT id FROM emp WHERE count(*) > 1
SELECT id FROM emp GROUP BY count(*)
SELECT count(count(*)) FROM emp
SELECT sum(salary) FILTER (WHERE id > 1), count(*) FILTER (WHERE salary) FROM emp
SELECT sum(salary) FILTER (WHERE count(*) > 1) FROM emp
SELECT * FROM emp JOIN dept ON count(*) > 1
SELECT count(*) FROM emp LIMIT count(*)
SELECT name, count(*) FROM emp
SELECT count(*) FROM emp ORDER BY name
SELECT count(*) FROM emp HAVING name = 'a'
SELECT name FROM emp HAVING true
SELECT e.name, count(*) FROM emp e GROUP BY e.id
SELECT e.name, d.name, count(*) FROM emp e, dept d GROUP BY e.id
SELECT a, c FROM pair GROUP BY a
SELECT a, c FROM pair GROUP BY a, b
SELECT a, b, c FROM pair GROUP BY b, a
SELECT upper(name), count(*) FROM emp GROUP BY upper(name)
SELECT upper(name) || 'x', count(*) FROM emp GROUP BY upper(name)
SELECT lower(name), count(*) FROM emp GROUP BY upper(name)
SELECT name AS n, count(*) FROM emp GROUP BY n
SELECT salary AS name, count(*) FROM emp GROUP BY name
SELECT name, name FROM emp GROUP BY 1, 2
SELECT name FROM emp GROUP BY 2
SELECT name FROM emp GROUP BY 0
SELECT name FROM emp GROUP BY -1
SELECT name FROM emp GROUP BY 1.5
SELECT name FROM emp GROUP BY 'a'
SELECT name FROM emp GROUP BY NULL
SELECT name FROM emp GROUP BY nosuch
SELECT id AS x, name AS x FROM emp GROUP BY x
SELECT id AS x, id AS x FROM emp GROUP BY x
SELECT count(*) AS c FROM emp GROUP BY c
SELECT count(*) FROM emp GROUP BY ()
SELECT dept_id, name, count(*), grouping(dept_id, name) FROM emp GROUP BY CUBE (dept_id, name)
SELECT dept_id, name FROM emp GROUP BY GROUPING SETS ((dept_id), (name), ())
SELECT dept_id, name FROM emp GROUP BY GROUPING SETS ((dept_id, name), ROLLUP (dept_id))
SELECT dept_id, name, salary FROM emp GROUP BY ROLLUP (dept_id, name)
SELECT id, name FROM emp GROUP BY ROLLUP (id)
SELECT grouping(salary) FROM emp GROUP BY dept_id
SELECT grouping(dept_id) FROM emp
SELECT id FROM emp WHERE grouping(id) = 1
SELECT dept_id FROM emp GROUP BY CUBE (dept_id, id, name, salary, hired, boss, note, 1+id, 2+id, 3+id, 4+id, 5+id, 6+id)
SELECT (dept_id, name), count(*) FROM emp GROUP BY (dept_id, name)
SELECT (SELECT count(*) FROM dept WHERE dept.id = emp.dept_id) FROM emp
SELECT (SELECT count(emp.id) FROM dept) FROM emp
SELECT name, (SELECT count(emp.id) FROM dept) FROM emp
SELECT (SELECT name FROM dept WHERE dept.id = emp.dept_id) FROM emp GROUP BY dept_id
SELECT (SELECT dept.name FROM dept WHERE dept.id = emp.boss) FROM emp GROUP BY dept_id
SELECT (SELECT sum(emp.id + dept.id) FROM dept) FROM emp
SELECT id FROM emp WHERE EXISTS (SELECT 1 FROM dept HAVING sum(emp.id) > 1)
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY salary) FROM emp
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY name), mode() WITHIN GROUP (ORDER BY id) FROM emp
SELECT percentile_cont(0.5) FROM emp
SELECT percentile_cont(salary) WITHIN GROUP (ORDER BY salary) FROM emp
SELECT percentile_cont(0.5, 1) WITHIN GROUP (ORDER BY salary) FROM emp
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY name) FROM emp
SELECT sum(salary) WITHIN GROUP (ORDER BY salary) FROM emp
SELECT rank(1) WITHIN GROUP (ORDER BY salary), dense_rank('a') WITHIN GROUP (ORDER BY name) FROM emp
SELECT rank(1, 2) WITHIN GROUP (ORDER BY salary) FROM emp
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY salary) OVER () FROM emp
SELECT lower(sum(salary)) FROM emp
SELECT max(salary) + 1, sum(salary) / count(*) FROM emp
-- windows
SELECT rank() FROM emp
SELECT rank() OVER (ORDER BY salary), row_number() OVER () FROM emp
SELECT sum(salary) OVER (PARTITION BY dept_id ORDER BY id ROWS 1 PRECEDING) FROM emp
SELECT sum(salary) OVER w, rank() OVER w FROM emp WINDOW w AS (ORDER BY id)
SELECT sum(salary) OVER nosuch FROM emp
SELECT sum(salary) OVER (nosuch) FROM emp
SELECT sum(salary) OVER (w ORDER BY id) FROM emp WINDOW w AS (PARTITION BY dept_id)
SELECT sum(salary) OVER (w PARTITION BY id) FROM emp WINDOW w AS (PARTITION BY dept_id)
SELECT sum(salary) OVER (w ORDER BY id) FROM emp WINDOW w AS (ORDER BY dept_id)
SELECT sum(salary) OVER (w) FROM emp WINDOW w AS (ORDER BY id ROWS 1 PRECEDING)
SELECT sum(salary) OVER (w ROWS 1 PRECEDING) FROM emp WINDOW w AS (ORDER BY id ROWS 1 PRECEDING)
SELECT 1 FROM emp WINDOW w AS (), w AS ()
SELECT 1 FROM emp WINDOW w AS (v), v AS ()
SELECT id FROM emp WHERE rank() OVER () = 1
SELECT id FROM emp GROUP BY rank() OVER ()
SELECT id FROM emp HAVING rank() OVER () = 1
SELECT id FROM emp ORDER BY rank() OVER (ORDER BY id)
SELECT sum(rank() OVER ()) FROM emp
SELECT sum(rank() OVER ()) OVER () FROM emp
SELECT rank() OVER (ORDER BY rank() OVER ()) FROM emp
SELECT sum(count(*)) OVER () FROM emp
SELECT sum(count(*)) OVER (ORDER BY dept_id) FROM emp GROUP BY dept_id
SELECT sum(salary) OVER (ORDER BY name) FROM emp GROUP BY dept_id
SELECT rank() OVER (ORDER BY name) FROM emp GROUP BY dept_id
SELECT sum(DISTINCT salary) OVER () FROM emp
SELECT array_agg(id ORDER BY id) OVER () FROM emp
SELECT rank() FILTER (WHERE true) OVER () FROM emp
SELECT count(*) FILTER (WHERE id > 1) OVER () FROM emp
SELECT sum(id) OVER (ORDER BY id RANGE 1 PRECEDING), sum(id) OVER (ORDER BY hired RANGE '1 day' PRECEDING) FROM emp
SELECT sum(id) OVER (ORDER BY hired RANGE 1 PRECEDING) FROM emp
SELECT sum(id) OVER (ORDER BY name RANGE 1 PRECEDING) FROM emp
SELECT sum(id) OVER (ORDER BY id, name RANGE 1 PRECEDING) FROM emp
SELECT sum(id) OVER (RANGE 1 PRECEDING) FROM emp
SELECT sum(id) OVER (GROUPS 1 PRECEDING) FROM emp
SELECT sum(id) OVER (ORDER BY id GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE TIES) FROM emp
SELECT sum(id) OVER (ROWS id PRECEDING) FROM emp
SELECT sum(id) OVER (ROWS 'x' PRECEDING) FROM emp
SELECT sum(id) OVER (ROWS now() PRECEDING) FROM emp
SELECT sum(id) OVER (ROWS $1 PRECEDING) FROM emp
SELECT lag(name), lead(salary, 2), lag(id, 1, 0) FROM emp
SELECT lag(name) OVER (ORDER BY id), lead(salary, 2) OVER w, lag(id, 1, 0) OVER w, lag(id, 1, 0.5) OVER w FROM emp WINDOW w AS (ORDER BY id)
SELECT ntile(4) OVER (), first_value(name) OVER (), nth_value(id, 2) OVER (), cume_dist() OVER () FROM emp
SELECT ntile('x') OVER () FROM emp
SELECT rank(1) OVER () FROM emp
SELECT count() OVER () FROM emp
-- order, distinct, limit
SELECT id AS x FROM emp ORDER BY x
SELECT id AS x FROM emp ORDER BY x + 1
SELECT name AS id FROM emp ORDER BY id
SELECT id AS x, name AS x FROM emp ORDER BY x
SELECT id FROM emp ORDER BY 2
SELECT id FROM emp ORDER BY 0
SELECT id FROM emp ORDER BY -1
SELECT id FROM emp ORDER BY 1.5
SELECT id FROM emp ORDER BY 'a'
SELECT id FROM emp ORDER BY NULL
SELECT id FROM emp ORDER BY true
SELECT id FROM emp ORDER BY nosuch
SELECT id FROM emp ORDER BY emp.nosuch
SELECT id FROM emp ORDER BY id USING <, name USING >
SELECT id FROM emp ORDER BY id USING =
SELECT id FROM emp ORDER BY id USING <->
SELECT DISTINCT id FROM emp ORDER BY name
SELECT DISTINCT id, name FROM emp ORDER BY name, id
SELECT DISTINCT upper(name) FROM emp ORDER BY upper(name)
SELECT DISTINCT upper(name) FROM emp ORDER BY name
SELECT DISTINCT ON (dept_id) id FROM emp ORDER BY id
SELECT DISTINCT ON (dept_id, id) id FROM emp ORDER BY id, dept_id, name
SELECT DISTINCT ON (dept_id) id FROM emp ORDER BY dept_id, id
SELECT DISTINCT ON (1) id FROM emp
SELECT DISTINCT ON (nosuch) id FROM emp
SELECT DISTINCT 'a', NULL
SELECT 'a' AS x ORDER BY x
SELECT id FROM emp LIMIT 'x'
SELECT id FROM emp LIMIT '5' OFFSET 2.5
SELECT id FROM emp LIMIT id
SELECT id FROM emp OFFSET emp.id
SELECT id FROM emp LIMIT (SELECT 1)
SELECT id FROM emp LIMIT now()
SELECT id FROM emp LIMIT ALL
SELECT id FROM emp LIMIT NULL
SELECT id FROM emp ORDER BY id FETCH FIRST 3 ROWS WITH TIES
SELECT id FROM emp LIMIT nosuch
SELECT (SELECT id FROM emp LIMIT 1), EXISTS (SELECT * FROM emp), (SELECT id, name FROM emp)
SELECT (SELECT id FROM emp LIMIT e.id) FROM emp e
-- subqueries
SELECT id FROM emp WHERE id IN (SELECT id FROM dept)
SELECT id FROM emp WHERE id IN (SELECT id, name FROM dept)
SELECT id FROM emp WHERE (id, name) IN (SELECT id, name FROM dept)
SELECT id FROM emp WHERE (id, name) IN (SELECT id FROM dept)
SELECT id FROM emp WHERE id IN (SELECT name FROM dept)
SELECT id FROM emp WHERE id = (SELECT id FROM dept)
SELECT id FROM emp WHERE id = (SELECT id, name FROM dept)
SELECT id FROM emp WHERE id > ALL (SELECT id FROM dept)
SELECT id FROM emp WHERE (id, name) > ALL (SELECT id, name FROM dept)
SELECT id FROM emp WHERE id + ANY (SELECT id FROM dept)
SELECT id FROM emp WHERE (SELECT id FROM dept)
SELECT id FROM emp WHERE NOT EXISTS (SELECT nosuch FROM dept)
SELECT id FROM emp e WHERE EXISTS (SELECT 1 FROM dept WHERE id = e.dept_id)
SELECT id FROM emp e WHERE EXISTS (SELECT 1 FROM dept WHERE dept.id = dept_id)
SELECT id FROM emp e WHERE EXISTS (SELECT 1 FROM dept d WHERE EXISTS (SELECT 1 FROM ord WHERE ord.id = e.id AND emp_id = d.id))
SELECT (SELECT 'a'), (SELECT NULL), (SELECT 1 AS x)
SELECT (SELECT)
SELECT 1 IN (SELECT 'a')
SELECT '1' IN (SELECT 1)
SELECT $1 IN (SELECT id FROM emp)
SELECT x.y FROM (SELECT 'a' AS y) x WHERE y = 'a'
SELECT * FROM (SELECT 'a' AS y) x WHERE y = 1
SELECT * FROM (SELECT NULL AS y) x, (SELECT 1 AS y) z WHERE x.y = z.y
SELECT EXISTS (SELECT 1), (SELECT count(*) FROM emp), ARRAY(SELECT 1), (SELECT 1) + 1
-- set operations
SELECT 1 UNION SELECT 2.5
SELECT 1 UNION SELECT 'a'
SELECT 1 UNION SELECT '2'
SELECT 'a' UNION SELECT 'b'
SELECT NULL UNION SELECT 1
SELECT NULL UNION SELECT NULL UNION SELECT 1
SELECT 1 UNION SELECT NULL UNION SELECT NULL
SELECT 1, 2 UNION SELECT 1
SELECT id FROM emp INTERSECT SELECT name FROM dept
SELECT id FROM emp EXCEPT SELECT id, name FROM dept
SELECT id, name FROM emp UNION ALL SELECT id, name FROM dept ORDER BY name
SELECT id FROM emp UNION SELECT id FROM dept ORDER BY id + 1
SELECT id FROM emp UNION SELECT id FROM dept ORDER BY dept.id
SELECT id AS a FROM emp UNION SELECT id AS b FROM dept ORDER BY a
SELECT id AS a FROM emp UNION SELECT id AS b FROM dept ORDER BY b
SELECT id FROM emp UNION SELECT id FROM dept ORDER BY 2
SELECT id FROM emp UNION SELECT id FROM dept FOR UPDATE
(SELECT id FROM emp ORDER BY name LIMIT 1) UNION ALL (SELECT 1.5)
(SELECT DISTINCT i4 FROM kinds) UNION SELECT 1.5
SELECT i2 FROM kinds UNION SELECT i4 FROM kinds UNION SELECT i8 FROM kinds
SELECT i2 FROM kinds UNION (SELECT i4 FROM kinds UNION SELECT n FROM kinds)
(SELECT i2 FROM kinds UNION SELECT i4 FROM kinds) UNION ALL SELECT f8 FROM kinds
SELECT v5 FROM kinds UNION SELECT v5 FROM kinds
SELECT v5 FROM kinds UNION SELECT v FROM kinds
SELECT n2 FROM kinds UNION ALL SELECT n FROM kinds
SELECT c FROM kinds UNION SELECT t FROM kinds
SELECT d FROM kinds UNION SELECT ts FROM kinds
SELECT d FROM kinds UNION SELECT tm FROM kinds
SELECT count(*) FROM emp UNION SELECT id FROM emp
SELECT 1 AS x UNION SELECT 2 AS y INTERSECT SELECT 3 AS z
SELECT * FROM emp UNION SELECT * FROM dept
SELECT * FROM (SELECT id FROM emp UNION SELECT id FROM dept) u WHERE u.id = 1
SELECT x FROM emp UNION SELECT id FROM emp
VALUES (1, 'a'), (2.5, 'b')
VALUES (1), (2, 3)
VALUES (1, 'a'), ('x', 'b')
VALUES (1), (true)
VALUES (NULL), (NULL)
VALUES (1) ORDER BY 1 LIMIT 1
VALUES (1) ORDER BY column1
VALUES (1) ORDER BY column2
VALUES (id)
VALUES (count(*))
VALUES (v.x)
SELECT 1 UNION VALUES (2), (3)
VALUES (1) UNION SELECT 'x'
TABLE emp
TABLE nosuch
-- WITH
WITH x AS (SELECT 1 AS a) SELECT * FROM x
WITH x AS (SELECT 1 AS a) SELECT x.b FROM x
WITH x(p, q) AS (SELECT 1) SELECT * FROM x
WITH x(p) AS (SELECT 1, 2) SELECT * FROM x
WITH x AS (SELECT 1), x AS (SELECT 2) SELECT * FROM x
WITH x AS (SELECT * FROM y), y AS (SELECT 1) SELECT * FROM x
WITH x AS (SELECT * FROM x) SELECT * FROM x
WITH emp AS (SELECT 1 AS z) SELECT * FROM emp
WITH emp AS (SELECT * FROM emp) SELECT name FROM emp
WITH x AS (SELECT 'a' AS a, NULL AS b) SELECT * FROM x
WITH x AS (SELECT 1 AS a), y AS (SELECT a + 1 AS b FROM x) SELECT * FROM x, y
WITH x AS (SELECT 1 AS a) SELECT (SELECT a FROM x), (WITH x AS (SELECT 'q' AS a) SELECT a FROM x)
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r
WITH RECURSIVE r AS (SELECT 1 AS n UNION SELECT n + 1 FROM r) SELECT n FROM r
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1.5 FROM r) SELECT * FROM r
WITH RECURSIVE r(n) AS (SELECT 'a' UNION ALL SELECT n || 'b' FROM r) SELECT * FROM r
WITH RECURSIVE r(n) AS (SELECT 1::varchar(5) UNION ALL SELECT n FROM r) SELECT * FROM r
WITH RECURSIVE r AS (SELECT n FROM r) SELECT * FROM r
WITH RECURSIVE r(n) AS (SELECT n FROM r UNION ALL SELECT 1) SELECT * FROM r
WITH RECURSIVE r(n) AS (SELECT 1 INTERSECT SELECT n FROM r) SELECT * FROM r
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n FROM r, r r2) SELECT * FROM r
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT (SELECT n FROM r)) SELECT * FROM r
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n FROM emp LEFT JOIN r ON true) SELECT * FROM r
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n FROM r LEFT JOIN emp ON true) SELECT * FROM r
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT max(n) FROM r) SELECT * FROM r
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL (SELECT n FROM r EXCEPT SELECT 2)) SELECT * FROM r
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL (SELECT 2 EXCEPT SELECT n FROM r)) SELECT * FROM r
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT 3) SELECT * FROM r
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r ORDER BY 1) SELECT * FROM r
WITH RECURSIVE x AS (SELECT * FROM y), y AS (SELECT 1 AS q) SELECT * FROM x
WITH RECURSIVE x AS (SELECT * FROM y), y AS (SELECT * FROM x) SELECT * FROM x
WITH RECURSIVE r(a, b) AS (SELECT id, boss FROM emp WHERE boss IS NULL UNION ALL SELECT e.id, e.boss FROM emp e JOIN r ON e.boss = r.a) SELECT * FROM r
WITH RECURSIVE r(n, m) AS (SELECT 1 UNION ALL SELECT n FROM r) SELECT * FROM r
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n, 2 FROM r) SELECT * FROM r
WITH RECURSIVE x AS (SELECT 1 AS q) SELECT * FROM x
WITH x AS (SELECT 1 AS a) SELECT * FROM emp WHERE id IN (SELECT a FROM x)
WITH x AS MATERIALIZED (SELECT 1 AS a), y AS NOT MATERIALIZED (SELECT 2 AS b) SELECT * FROM x, y
-- functions in FROM, sets
SELECT * FROM generate_series(1, 3)
SELECT * FROM generate_series(1, 3) g
SELECT * FROM generate_series(1, 3) AS g(n)
SELECT * FROM generate_series(1, 3) WITH ORDINALITY
SELECT * FROM generate_series(1, 3) WITH ORDINALITY AS g(n, i)
SELECT g, g.g, g.n FROM generate_series(1, 3) g
SELECT * FROM generate_series(1, 3) AS g(a, b)
SELECT * FROM generate_series(1, '3'), generate_series(1.5, 3) x, generate_series(1, 3::bigint) y
SELECT * FROM generate_series(now(), now(), '1 day') t
SELECT * FROM unnest(ARRAY[1, 2]) u
SELECT * FROM emp e, unnest(ARRAY[e.id]) u
SELECT * FROM kinds, unnest(ai) WITH ORDINALITY AS u(x, i)
SELECT * FROM unnest(1)
SELECT * FROM lower('A')
SELECT * FROM lower('A') AS l(x)
SELECT * FROM nosuch(1)
SELECT * FROM generate_series(1, 3) AS g(a int)
SELECT * FROM ROWS FROM (generate_series(1, 3), generate_series(1, 2)) AS r
SELECT * FROM ROWS FROM (generate_series(1, 3), lower('a')) WITH ORDINALITY
SELECT * FROM generate_series(1, generate_series(1, 2))
SELECT * FROM current_date
SELECT * FROM coalesce(1, 2) AS c
SELECT generate_series(1, 3), generate_series(1, 2) + 1
SELECT unnest(ARRAY['a', 'b']), unnest(ai) FROM kinds
SELECT id FROM emp WHERE generate_series(1, 2) = 1
SELECT CASE WHEN true THEN generate_series(1, 2) END
SELECT coalesce(generate_series(1, 2), 1)
SELECT sum(generate_series(1, 2))
SELECT id FROM emp ORDER BY generate_series(1, 2)
SELECT id FROM emp GROUP BY generate_series(1, 2)
SELECT id FROM emp LIMIT generate_series(1, 2)
SELECT id FROM emp HAVING generate_series(1, 2) > 1
SELECT * FROM emp JOIN dept ON generate_series(1, 2) = 1
VALUES (generate_series(1, 2))
SELECT generate_series(1, 3) FROM emp FOR UPDATE
-- locks
SELECT * FROM emp FOR UPDATE
SELECT * FROM emp e FOR SHARE OF e NOWAIT
SELECT * FROM emp e FOR SHARE OF emp
SELECT * FROM emp FOR UPDATE OF nosuch
SELECT DISTINCT id FROM emp FOR UPDATE
SELECT id FROM emp GROUP BY id FOR SHARE
SELECT count(*) FROM emp FOR UPDATE
SELECT rank() OVER () FROM emp FOR NO KEY UPDATE
SELECT 1 FROM emp HAVING true FOR KEY SHARE
VALUES (1) FOR UPDATE
SELECT * FROM emp JOIN dept USING (id) FOR UPDATE OF emp SKIP LOCKED
SELECT * FROM (emp JOIN dept USING (id)) j FOR UPDATE OF j
SELECT * FROM generate_series(1, 2) g FOR UPDATE OF g
WITH x AS (SELECT 1) SELECT * FROM x FOR UPDATE OF x
-- column names
SELECT 1, 'a', NULL, 1 + 1, -1, NOT true, id, emp.id, emp FROM emp
SELECT lower('a'), 'a'::text, '1'::int4, CAST(1 AS numeric(5, 2)), id::text, lower(name)::varchar FROM emp
SELECT CASE WHEN true THEN id END, CASE WHEN true THEN 1 ELSE id END, coalesce(id, 1), nullif(id, 1) FROM emp
SELECT greatest(1, 2), least(1, 2), ARRAY[1], ROW(1), (SELECT id FROM dept), EXISTS (SELECT 1) FROM emp
SELECT extract(year FROM hired), substring(name FROM 1), trim(name), position('a' IN name), hired AT TIME ZONE 'UTC' FROM emp
SELECT id IN (1), id IS NULL, name LIKE 'a', id BETWEEN 1 AND 2, id = ANY (ARRAY[1]), grouping(id) FROM emp GROUP BY id, name
SELECT date '2020-01-01', interval '1 day', timestamp '2020-01-01', true::int
SELECT (ARRAY[1])[1], ai[1], (kinds).ai[1], (kinds).t FROM kinds
SELECT count(*), sum(id) AS s, max(id) "M" FROM emp
SELECT current_date, current_user, localtimestamp
SELECT "char"('a'), 'a'::"char", 'x'::name, 1::oid
SELECT 'emp'::regclass, 'int4'::regtype
SELECT xmin FROM emp
SELECT ctid, tableoid FROM emp
-- INSERT
INSERT INTO emp VALUES (1, 'a')
INSERT INTO emp VALUES (1, 'a', 2, 3.5, '2020-01-01', NULL, 'n')
INSERT INTO emp VALUES (1, 'a', 2, 3.5, '2020-01-01', NULL, 'n', 8)
INSERT INTO emp (id, name) VALUES ($1, $2)
INSERT INTO emp (id, name) VALUES ($1, $2), ($3, 'x') RETURNING id, name AS n
INSERT INTO emp (id, name) VALUES (1)
INSERT INTO emp (id, name) VALUES (1, 'a', 3)
INSERT INTO emp (id, name) VALUES ((1, 'a'))
INSERT INTO emp (id, nosuch) VALUES (1, 2)
INSERT INTO emp (id, id) VALUES (1, 2)
INSERT INTO nosuch VALUES (1)
INSERT INTO emp (id, hired) VALUES (1, 2)
INSERT INTO emp (id, hired) VALUES (1, '2020-02-31')
INSERT INTO emp (id, hired) VALUES ('x', NULL)
INSERT INTO emp (id, name, salary) VALUES (1.5, 7, '3'), (2, true, 4)
INSERT INTO emp (id, name) VALUES (1, 'a'), (2)
INSERT INTO emp (id, name) VALUES (DEFAULT, DEFAULT), (2, DEFAULT)
INSERT INTO emp (id, name) VALUES (count(*), 'a')
INSERT INTO emp (id, name) VALUES (id, 'a')
INSERT INTO emp (id, name) VALUES (1, (SELECT name FROM dept LIMIT 1))
INSERT INTO emp DEFAULT VALUES
INSERT INTO emp DEFAULT VALUES RETURNING *
INSERT INTO emp (id, name) SELECT id, name FROM dept
INSERT INTO emp (id, name) SELECT id FROM dept
INSERT INTO emp (id) SELECT name FROM dept
INSERT INTO emp (id, hired) SELECT 1, '2020-01-01'
INSERT INTO emp (id, hired) SELECT 1, 'x'
INSERT INTO emp (id, name) SELECT $1, $2
INSERT INTO emp (id, name) SELECT 1, 'a' UNION SELECT 2, 'b'
INSERT INTO emp SELECT * FROM dept
INSERT INTO dept SELECT id, name FROM emp WHERE salary > $1
INSERT INTO emp AS e (id, name) VALUES (1, 'a') RETURNING e.id, emp.name
INSERT INTO emp AS e (id, name) VALUES (1, 'a') RETURNING e.id, old.id, new.name
INSERT INTO emp (id, name) VALUES (1, 'a') RETURNING count(*)
INSERT INTO emp (id, name) VALUES (1, 'a') RETURNING nosuch
INSERT INTO emp (id, name) VALUES (1, 'a') RETURNING WITH (OLD AS o, NEW AS n) o.id, n.id
INSERT INTO emp (id, name) VALUES (1, 'a') RETURNING old.nosuch
WITH x AS (SELECT 1 AS a) INSERT INTO emp (id) SELECT a FROM x RETURNING (SELECT a FROM x)
INSERT INTO kinds (v5, c, n2, i2, f4) VALUES ('abcdefgh', 'x', 1.23456, 70000, 1e10)
INSERT INTO kinds (ai, at) VALUES ('{1,2}', ARRAY['a'])
INSERT INTO kinds (ai) VALUES (ARRAY['a'])
INSERT INTO kinds (b) VALUES (1)
INSERT INTO kinds (t) VALUES (1), (d)
INSERT INTO kinds (t, v, nm) VALUES (1, 2, 3)
-- UPDATE
UPDATE emp SET name = 'a'
UPDATE emp SET name = 'a' WHERE id = $1
UPDATE emp SET salary = salary * 1.1, hired = $1 WHERE name LIKE $2 RETURNING id, salary
UPDATE emp SET nosuch = 1
UPDATE emp SET emp.name = 'a'
UPDATE emp e SET e.name = 'a'
UPDATE emp SET name = 'a', name = 'b'
UPDATE emp SET hired = 1
UPDATE emp SET id = 'x'
UPDATE emp SET salary = DEFAULT
UPDATE emp SET (id, name) = (1, 'a')
UPDATE emp SET (id, name) = (1, 'a', 3)
UPDATE emp SET (id, name) = ROW(1, DEFAULT)
UPDATE emp SET (id, name) = 1
UPDATE emp SET name = count(*)
UPDATE emp SET name = nosuch
UPDATE emp SET name = d.name FROM dept d WHERE d.id = emp.dept_id
UPDATE emp SET name = d.name FROM dept d WHERE d.id = dept_id RETURNING emp.*, d.budget
UPDATE emp SET name = 'a' FROM emp WHERE true
UPDATE emp e SET name = 'a' FROM emp WHERE e.id = emp.id
UPDATE emp SET name = 'a' FROM LATERAL (SELECT emp.id) s
UPDATE emp SET name = 'a' FROM (SELECT emp.id) s
UPDATE emp SET name = (SELECT name FROM dept WHERE dept.id = emp.dept_id)
UPDATE emp SET name = 'a' WHERE salary
UPDATE emp SET name = 'a' WHERE count(*) > 1
UPDATE emp SET name = 'a' RETURNING old.name, new.name, name, old.*
UPDATE emp SET name = 'a' RETURNING rank() OVER ()
UPDATE emp SET id = generate_series(1, 2)
UPDATE nosuch SET a = 1
WITH x AS (SELECT 1 AS a) UPDATE emp SET id = x.a FROM x WHERE emp.id = x.a
UPDATE pair SET a = b, b = a WHERE c IS NULL
-- DELETE
DELETE FROM emp
DELETE FROM emp WHERE id = $1 RETURNING *
DELETE FROM emp WHERE nosuch = 1
DELETE FROM emp e WHERE emp.id = 1
DELETE FROM emp USING dept WHERE emp.dept_id = dept.id RETURNING emp.id, dept.name
DELETE FROM emp USING dept WHERE id = 1
DELETE FROM emp WHERE id IN (SELECT id FROM dept)
DELETE FROM emp WHERE name
DELETE FROM emp RETURNING old.id, new.id, nosuch.id
DELETE FROM nosuch
DELETE FROM emp WHERE max(id) = 1
-- set-returning functions in every clause
SELECT generate_series(1, 3) AS g, count(*) FROM emp GROUP BY g
SELECT unnest(tags), count(*) FROM ord GROUP BY 1
SELECT unnest(tags) AS x, sum(total) FROM ord GROUP BY unnest(tags) HAVING count(*) > 1
SELECT count(*) FROM emp GROUP BY generate_series(1, id)
SELECT count(*) FROM emp GROUP BY generate_series(1, id) + 1
SELECT generate_series(1, id) + 1, count(*) FROM emp GROUP BY generate_series(1, id) + 1
SELECT generate_series(1, id), count(*) FROM emp GROUP BY generate_series(1, id), dept_id ORDER BY 1, 2
SELECT generate_series(1, count(*)) FROM emp GROUP BY dept_id
SELECT generate_series(1, dept_id), count(*) FROM emp GROUP BY dept_id
SELECT generate_series(1, dept_id), count(*) FROM emp GROUP BY dept_id ORDER BY 1
SELECT rank() OVER (ORDER BY generate_series(1, 3)) FROM emp
SELECT generate_series(1, 3), rank() OVER (ORDER BY generate_series(1, 3)) FROM emp
SELECT rank() OVER (PARTITION BY generate_series(1, id) ORDER BY id) FROM emp
SELECT rank() OVER (PARTITION BY unnest(tags) ORDER BY id), sum(total) OVER (ORDER BY id) FROM ord
SELECT sum(generate_series(1, 3)) OVER () FROM emp
SELECT sum(id) OVER (ROWS generate_series(1, 3) PRECEDING) FROM emp
SELECT DISTINCT generate_series(1, 3) ORDER BY 1
SELECT DISTINCT generate_series(1, 3) ORDER BY generate_series(1, 3)
SELECT DISTINCT generate_series(1, 3) AS g ORDER BY g DESC
SELECT DISTINCT id, generate_series(1, 3) AS g FROM emp ORDER BY g DESC, id
SELECT DISTINCT generate_series(1, 3) + 1 FROM emp ORDER BY generate_series(1, 3) + 1
SELECT DISTINCT ON (generate_series(1, 3)) id FROM emp
SELECT DISTINCT ON (generate_series(1, 3)) id, generate_series(1, 3) FROM emp ORDER BY generate_series(1, 3), id
SELECT DISTINCT ON (id) id, generate_series(1, 3) FROM emp ORDER BY id, 2 DESC
SELECT id FROM emp ORDER BY generate_series(1, 3)
SELECT id, generate_series(1, 3) FROM emp ORDER BY generate_series(1, 3) DESC, id LIMIT 2
SELECT id FROM emp ORDER BY generate_series(1, 3), unnest(ARRAY[1, 2])
SELECT DISTINCT generate_series(1, 3) AS g, unnest(ARRAY[3, 2]) AS h ORDER BY h, g
SELECT generate_series(1, 3), generate_series(1, 2) ORDER BY 1
SELECT generate_series(1, generate_series(1, 3)) ORDER BY 1
SELECT count(*) FROM emp GROUP BY ROLLUP (generate_series(1, 2), dept_id)
SELECT generate_series(1, 2) AS g, dept_id, count(*) FROM emp GROUP BY CUBE (g, dept_id)
SELECT generate_series(1, 2) UNION SELECT 3 ORDER BY 1
SELECT 1 UNION SELECT 2 ORDER BY generate_series(1, 2)
SELECT 1 LIMIT generate_series(1, 2)
SELECT 1 WHERE generate_series(1, 2) > 1
SELECT 1 FROM emp HAVING generate_series(1, 2) > 1
SELECT CASE WHEN true THEN generate_series(1, 2) END
SELECT COALESCE(generate_series(1, 2), 1)
SELECT GREATEST(generate_series(1, 2), 2)
SELECT NULLIF(generate_series(1, 2), 2)
SELECT generate_series(1, 2) IS NULL
SELECT generate_series(1, 2) IS DISTINCT FROM 1
SELECT generate_series(1, 2) IN (1, 2)
SELECT generate_series(1, 2) = ANY (ARRAY[1])
SELECT NOT (generate_series(1, 2) = 1)
SELECT generate_series(1, 2) = 1 AND true
SELECT generate_series(1, 2)::text
SELECT ARRAY[generate_series(1, 2)]
SELECT ROW(generate_series(1, 2), 5)
SELECT (ARRAY[1,2,3])[generate_series(1, 2)]
SELECT (ARRAY[1,2,3])[generate_series(1, 2):3]
SELECT generate_series(1, 2) + sum(id) FROM emp
SELECT sum(generate_series(1, 2)) FROM emp
SELECT sum(id ORDER BY generate_series(1, 2)) FROM emp
SELECT sum(id) FILTER (WHERE generate_series(1, 2) > 1) FROM emp
SELECT (SELECT generate_series(1, id) LIMIT 1) FROM emp
SELECT id IN (SELECT generate_series(1, 3)) FROM emp
SELECT * FROM emp JOIN dept ON generate_series(1, 2) = 1
VALUES (generate_series(1, 2))
SELECT * FROM (VALUES (generate_series(1, 2))) v
SELECT * FROM generate_series(1, generate_series(1, 2))
SELECT * FROM abs(generate_series(1, 2))
SELECT * FROM ROWS FROM (generate_series(1, 2), current_date)
SELECT * FROM ROWS FROM (generate_series(1, 2), coalesce(1, 2))
SELECT * FROM current_date WITH ORDINALITY
SELECT * FROM coalesce(1, 2) WITH ORDINALITY
SELECT * FROM cast(1 AS text)
SELECT * FROM generate_series(1, 3) g WHERE generate_series(1, 2) = g
UPDATE emp SET id = generate_series(1, 2)
INSERT INTO emp (id, name) VALUES (generate_series(1, 3), 'a')
INSERT INTO emp (id, name) VALUES (generate_series(1, 3), 'a'), (1, 'b')
INSERT INTO emp (id, name) SELECT generate_series(1, 3), 'a'
DELETE FROM emp RETURNING generate_series(1, 2)
INSERT INTO emp (id, name) VALUES (1, 'a') RETURNING generate_series(1, 2)
UPDATE emp SET id = 1 RETURNING unnest(ARRAY[1])
INSERT INTO emp (id, name) VALUES (1, 'a') ON CONFLICT (id) DO UPDATE SET id = generate_series(1, 2)
INSERT INTO emp (id, name) VALUES (1, 'a') ON CONFLICT (id) DO UPDATE SET id = 1 WHERE generate_series(1, 2) = 1
SELECT generate_series(1, 3) FROM emp FOR UPDATE
SELECT id FROM emp ORDER BY generate_series(1, 3) FOR UPDATE
WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT generate_series(x, 3) FROM r WHERE x < 3) SELECT * FROM r
WITH RECURSIVE r AS (SELECT 1 AS x UNION SELECT x + generate_series(1, 2) FROM r WHERE x < 3) SELECT x, count(*) FROM r GROUP BY x
SELECT grouping(generate_series(1, 2)) FROM emp GROUP BY generate_series(1, 2)
SELECT array(SELECT generate_series(1, 3) ORDER BY 1 DESC)
SELECT lag(generate_series(1, 3)) OVER () FROM emp
SELECT generate_series(1, 3) * row_number() OVER () FROM emp
SELECT generate_series(1, row_number() OVER (ORDER BY id)) FROM emp ORDER BY 1
SELECT DISTINCT generate_series(1, 2), count(*) FROM emp GROUP BY generate_series(1, 2) ORDER BY count(*)
SELECT regexp_split_to_table('a b', ' ') AS w, count(*) FROM emp GROUP BY w ORDER BY w
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY generate_series(1, 2)) FROM emp
SELECT (string_to_array(note, ','))[generate_subscripts(string_to_array(note, ','), 1)], count(*) FROM emp GROUP BY 1
SELECT x FROM emp e, LATERAL (SELECT generate_series(1, e.id) AS x GROUP BY 1) s
SELECT DISTINCT x FROM emp e, LATERAL (SELECT rank() OVER (ORDER BY generate_series(1, e.id)) AS x) s ORDER BY x
-- names that are there with other arguments, and types
SELECT length(42)
SELECT nosuch(1)
SELECT lower(1, 2)
SELECT public.length('a')
SELECT pg_catalog.nosuch(1)
SELECT nosuch.length('a')
SELECT a.b.c.d(1)
SELECT 1 ~~~ 2
SELECT 1 || 2
SELECT 'a'::text + 1
SELECT true + true
SELECT - 'a'::text
SELECT - true
SELECT @ 'a'::text
SELECT 1 OPERATOR(pg_catalog.+) 2
SELECT 1 OPERATOR(nosuch.+) 2
SELECT 1 OPERATOR(public.+) 2
SELECT 1 OPERATOR(pg_catalog.~~~) 2
SELECT 'a' OPERATOR(pg_catalog.~) 'b' COLLATE pg_catalog.default
SELECT 1::nosuch
SELECT 1::public.int4
SELECT 1::nosuch.int4
SELECT 1::pg_catalog.int4
SELECT CAST(1 AS nosuch[])
SELECT count(DISTINCT name, id) FROM emp
SELECT sum(name) FROM emp
SELECT avg(hired) FROM emp
SELECT max(paid) FROM ord
SELECT bool_and(id) FROM emp
SELECT rank(1) OVER () FROM emp
SELECT row_number(1) OVER () FROM emp
SELECT lag() OVER () FROM emp
SELECT ntile('a') OVER () FROM emp
SELECT generate_series('a', 'b')
SELECT generate_series(1, 2, 'x'::text)
SELECT unnest(1)
SELECT array_length(1, 1)
SELECT array_length('{1}', 1)
SELECT substring(1 from 2)
SELECT substring('a' from 1 for 'x'::text)
SELECT trim(1)
SELECT trim(both 1 from 'a')
SELECT position(1 in 'a')
SELECT overlay('a' placing 1 from 2)
SELECT extract(year from 'a'::text)
SELECT extract(year from 1)
SELECT date_part(1, now())
SELECT now(1)
SELECT coalesce()
SELECT current_date + 'a'
SELECT current_date + 1.5
SELECT now() + 1
SELECT now() - '1 day'
SELECT now() * 2
SELECT interval '1 day' * 'a'
SELECT 1 IN ('a', 2)
SELECT 1 IN (true)
SELECT 1 BETWEEN 'a' AND true
SELECT 1 = ANY ('a')
SELECT 1 = ANY (1)
SELECT 1 = ANY (ARRAY['a'])
SELECT 1 LIKE 'a'
SELECT true ~ 'a'
SELECT NOT 1
SELECT 1 AND true
SELECT CASE WHEN 1 THEN 2 END
SELECT id FROM emp WHERE name
SELECT id FROM emp WHERE 1
SELECT name = 1 FROM emp
SELECT id = 'a' FROM emp
SELECT hired = 1 FROM emp
SELECT uuid '1' = 1
SELECT u = 'x' FROM kinds
SELECT by || t FROM kinds
SELECT ai || t FROM kinds
SELECT ai = at FROM kinds
SELECT ai @> at FROM kinds
SELECT b < t FROM kinds
SELECT d - tm FROM kinds
SELECT o + 1 FROM kinds
SELECT nm || 1 FROM kinds
SELECT nm LIKE 1 FROM kinds
SELECT ROW(1, 2) = ROW('a', true)
SELECT ROW(1, 2) < ROW(1)
SELECT ROW(1) + 1
SELECT (1, 2) IN ((1, 2), (3))
SELECT 1 !=- 1
SELECT 1 <> 'a'::text
SELECT |/ 'a'::text
SELECT 5 !
SELECT !! 5
SELECT 2 ^ 'a'::text
SELECT 1 % 2.5::float8
SELECT 1 << 2.5
SELECT ~ 1.5
SELECT 1 # true
SELECT pg_typeof()
SELECT format(1)
SELECT concat()
SELECT concat_ws()
SELECT round(1, 2, 3)
SELECT round('a'::text)
SELECT round(1.5::float8, 2)
SELECT trunc(1.5::float8, 2)
SELECT to_char(1)
SELECT to_char('a'::text, 'b')
SELECT to_date(1, 'a')
SELECT to_timestamp('a', 1)
SELECT md5(1)
SELECT left(1, 2)
SELECT repeat('a', 'b'::text)
SELECT lpad('a', 'b'::text)
SELECT replace(1, 2, 3)
SELECT split_part('a', 'b')
SELECT string_agg(name) FROM emp
SELECT string_agg(id, ',') FROM emp
SELECT array_agg() FROM emp
SELECT count(1, 2) FROM emp
SELECT sum(*) FROM emp
SELECT max() FROM emp
SELECT mod(1.5::float8, 2)
SELECT power('a'::text, 2)
SELECT sqrt(true)
SELECT abs('a'::text)
SELECT abs(interval '1 day')
SELECT greatest(1, 'a'::text)
SELECT nullif(1, 'a'::text)
SELECT f(VARIADIC ARRAY[1])
SELECT concat(VARIADIC 1)
SELECT concat(VARIADIC ARRAY['a'])
SELECT lower(DISTINCT 'a')
SELECT lower(*)
SELECT lower('a') FILTER (WHERE true)
SELECT lower('a') OVER ()
SELECT lower('a' ORDER BY 1)
SELECT lower('a') WITHIN GROUP (ORDER BY 1)
SELECT has_table_privilege(1)
SELECT pg_get_expr(1)
SELECT pg_catalog.format_type('a', 'b', 'c')
SELECT int4(1.5)
SELECT text(1)
SELECT varchar(1)
SELECT bool('t')
SELECT timestamp('2020-01-01')
SELECT "timestamp"('2020-01-01')
SELECT float8(1)
SELECT numeric(1, 2)
SELECT pg_catalog.timestamptz('2020-01-01')
SELECT ARRAY[1, 'a'::text]
SELECT ARRAY[1, true]
SELECT ARRAY[]
SELECT ARRAY[1][1]
SELECT (1)[1]
SELECT name[1] FROM emp
SELECT ai['a'] FROM kinds
SELECT ai[1.5] FROM kinds
SELECT 1 COLLATE "C"
SELECT 'a' COLLATE nosuch
SELECT 'a' COLLATE "en_US"
SELECT 'a' COLLATE pg_catalog."C"
SELECT 'a' COLLATE nosuch."C"
SELECT ts AT TIME ZONE 1 FROM kinds
SELECT d AT TIME ZONE 'UTC' FROM kinds
SELECT i4 AT TIME ZONE 'UTC' FROM kinds
SELECT 'a'::"char"
SELECT 'a'::char
SELECT 1::"char"
SELECT 'abc'::varchar(0)
SELECT 'abc'::varchar('x')
SELECT 1::int(4)
SELECT 1::float(60)
SELECT 1::float(0)
SELECT 1::float(24)
SELECT 1::numeric(0)
SELECT 1::numeric(1001)
SELECT 1::numeric(5, 2000)
SELECT 1::numeric(1, 2, 3)
SELECT now()::timestamp(-1)
SELECT now()::timestamp(7)
SELECT NULL::void
SELECT NULL::record
SELECT NULL::unknown
SELECT NULL::_int4
SELECT NULL::int4[][]
SELECT NULL::int4[3]
SELECT NULL::int ARRAY
SELECT NULL::numeric(5,2)[]
SELECT NULL::varchar(5)[]
SELECT '{abcdef}'::varchar(3)[]
SELECT '{1.257}'::numeric(3,2)[]
SELECT NULL::timestamp(3)[]
SELECT NULL::serial
SELECT NULL::bigserial
-- catalogs' types
SELECT nm[1], nm[0], (nm)[64] FROM kinds
SELECT '1 2'::int2vector = '{1,2}'::int2[]
SELECT '1 2'::int2vector = '1 2'::int2vector
SELECT '{1,2}'::int2[]::int2vector
SELECT ('1 2'::int2vector)[0], ('1 2'::int2vector)[0:1], '1 2'::int2vector::int2[], '1 2'::int2vector::text[]
SELECT 1 = ANY ('1 2'::int2vector), 1::oid = ALL ('1 2'::oidvector), unnest('1 2'::oidvector)
SELECT array_append('1 2'::int2vector, 3::int2), '1 2'::int2vector || 3::int2, array_upper('1 2'::oidvector, 1)
SELECT ARRAY['1 2'::int2vector], ARRAY[1, 2]::int2vector
SELECT tableoid FROM emp
SELECT emp.tableoid, d.tableoid FROM emp LEFT JOIN dept d ON d.id = emp.dept_id
SELECT tableoid FROM emp, dept
SELECT tableoid FROM emp JOIN dept USING (id)
SELECT e.tableoid FROM emp e GROUP BY e.dept_id
SELECT tableoid, count(*) FROM emp GROUP BY tableoid
SELECT tableoid FROM (SELECT * FROM emp) s
DELETE FROM emp RETURNING tableoid
SELECT 1::regnamespace, 1::regrole, 1::regprocedure, 1::regoper, 1::regoperator, 1::regnamespace::oid, 1::regrole::text, 1::regprocedure::regproc
SELECT 'pg_catalog'::regnamespace || 'x', to_regnamespace('x'), to_regrole('x')
SELECT _pg_expandarray('{1}'::int2[])
SELECT pg_catalog._pg_expandarray('{1}'::int2[])
SELECT (information_schema._pg_expandarray('{1}'::int2[])).n
SELECT * FROM information_schema._pg_expandarray('{1}'::int2[])
SELECT information_schema.length('x')
SELECT * FROM pg_options_to_table('{a=b}'), pg_partition_ancestors('pg_class'), pg_available_extensions()
-- several columns of UPDATE, locks of subqueries, OVERRIDING
UPDATE emp SET (dept_id, boss) = (SELECT 1, 2)
UPDATE emp SET (dept_id, boss) = (SELECT id, floor FROM dept WHERE dept.id = emp.dept_id)
UPDATE emp SET (dept_id, boss) = (SELECT id FROM dept)
UPDATE emp SET (dept_id, boss) = (SELECT 'a', 2)
UPDATE emp SET (dept_id, boss) = (SELECT '1', $1)
UPDATE emp SET (dept_id, boss) = (SELECT true, 2)
UPDATE emp SET (dept_id) = (SELECT 1)
UPDATE emp SET (dept_id) = (SELECT 1, 2)
UPDATE emp SET (dept_id, boss) = ROW(1, DEFAULT)
UPDATE emp SET (dept_id, boss) = (1, 2), name = 'x'
UPDATE emp SET (dept_id, boss) = ROW(1)
UPDATE emp SET (dept_id, boss) = 1
UPDATE emp SET (dept_id, dept_id) = (SELECT 1, 2)
UPDATE emp SET (dept_id, nosuch) = (SELECT 1, 2)
UPDATE emp SET (dept_id, boss) = (SELECT 1, 2 UNION SELECT 3, 4)
UPDATE emp SET (dept_id, boss) = (VALUES (1, 2))
UPDATE emp SET (dept_id, boss) = (SELECT DISTINCT id, floor FROM dept ORDER BY id LIMIT 1), (salary, note) = (SELECT 1, 'x') RETURNING *
UPDATE emp SET (dept_id, note) = (SELECT id, budget FROM dept)
UPDATE emp SET (dept_id, salary) = (SELECT id, budget FROM dept)
UPDATE emp SET (dept_id, boss) = (SELECT count(*), max(emp.id) FROM dept)
UPDATE emp SET (dept_id, boss) = (SELECT * FROM (SELECT 1, 2) s)
UPDATE emp SET (dept_id, boss) = (SELECT d.id, d.floor) FROM dept d WHERE d.id = emp.id
UPDATE emp SET (dept_id, boss) = ANY (SELECT 1, 2)
INSERT INTO emp (id, name) VALUES (1, 'a') ON CONFLICT (id) DO UPDATE SET (dept_id, boss) = (SELECT excluded.id, emp.boss)
INSERT INTO emp (id, name) VALUES (1, 'a') ON CONFLICT (id) DO UPDATE SET (dept_id, boss) = ROW(1, 2)
INSERT INTO emp (id, name) VALUES (1, 'a') ON CONFLICT (id) DO UPDATE SET (dept_id, boss) = (1, DEFAULT)
INSERT INTO emp (id, name) OVERRIDING SYSTEM VALUE VALUES (1, 'a')
INSERT INTO emp (id, name) OVERRIDING USER VALUE SELECT 1, 'a'
INSERT INTO emp OVERRIDING USER VALUE DEFAULT VALUES
INSERT INTO emp (id, name, salary) VALUES (1, DEFAULT, 1), (2, 'b', DEFAULT), (DEFAULT, DEFAULT, $1)
SELECT * FROM (SELECT id FROM emp) s FOR UPDATE
SELECT * FROM (SELECT id FROM emp WHERE id > 1) s WHERE s.id < 5 FOR SHARE OF s
SELECT * FROM (SELECT DISTINCT id FROM emp) s FOR UPDATE
SELECT * FROM (SELECT count(*) FROM emp) s FOR UPDATE
SELECT * FROM (SELECT id FROM emp GROUP BY id) s FOR UPDATE
SELECT * FROM (SELECT rank() OVER () FROM emp) s FOR UPDATE
SELECT * FROM (SELECT id FROM emp UNION SELECT id FROM dept) s FOR UPDATE
SELECT * FROM (SELECT generate_series(1, 2) FROM emp) s FOR UPDATE
SELECT * FROM (SELECT id FROM emp LIMIT 2) s FOR UPDATE
SELECT * FROM (SELECT e.id FROM emp e JOIN dept d USING (id)) s, ord FOR UPDATE OF s SKIP LOCKED
SELECT * FROM (SELECT * FROM (SELECT id FROM emp) a) s FOR NO KEY UPDATE NOWAIT
SELECT * FROM (VALUES (1)) v FOR UPDATE
SELECT * FROM (VALUES (1)) v FOR UPDATE OF v
SELECT * FROM (SELECT id FROM emp FOR SHARE) s FOR UPDATE
SELECT id FROM emp ORDER BY id FETCH FIRST 2 ROWS WITH TIES
SELECT id FROM emp FETCH FIRST 2 ROWS WITH TIES
SELECT id FROM emp ORDER BY id FETCH FIRST ROW WITH TIES FOR UPDATE
SELECT id FROM emp ORDER BY id FETCH FIRST ROW WITH TIES FOR UPDATE SKIP LOCKED
SELECT DISTINCT dept_id FROM emp ORDER BY dept_id OFFSET 1 FETCH NEXT (1 + 1) ROWS WITH TIES
-- named arguments
SELECT make_interval(days => 1)
SELECT make_interval(nosuch => 1)
SELECT make_interval(1, years => 2)
SELECT make_interval(days => 1, days => 2)
SELECT make_interval(days => 1, 2)
SELECT make_interval(days := 1, secs => 'a')
SELECT make_interval(days => 'a'::text)
SELECT make_interval(days => $1, secs => $2)
SELECT make_interval(years => 1, months => 2, weeks => 3, days => 4, hours => 5, mins => 6, secs => 7.5)
SELECT make_date(2020, day => 3)
SELECT make_date(day => 3, month => 2, year => 1)
SELECT make_date(year => 1, 2, 3)
SELECT random(max => 5, min => 1)
SELECT regexp_replace('a', 'b', replacement => 'c', "N" => 2, start => 1)
SELECT regexp_replace(string => 'a', pattern => 'b', replacement => 'c', flags => 'g')
SELECT regexp_split_to_table(pattern => 'b', string => 'a')
SELECT * FROM regexp_matches(pattern => 'b', string => 'abb', flags => 'g')
SELECT nosuch(a => 1)
SELECT nosuch.f(a => 1)
SELECT pg_catalog.make_date(year => 1, month => 2, day => 3)
SELECT abs(x => 1)
SELECT count(x => 1) FROM emp
SELECT row_number(x => 1) OVER () FROM emp
SELECT concat(a => 1)
SELECT concat('x', VARIADIC a => ARRAY[1])
SELECT pg_terminate_backend(pid => 1, timeout => 5)
SELECT make_time(hour => 1, min => 2, sec => 3) OVER ()
SELECT make_time(DISTINCT hour => 1, min => 2, sec => 3)
