-- psql 18: \sf now
SELECT 'now'::pg_catalog.regproc::pg_catalog.oid;

SELECT pg_catalog.pg_get_functiondef(1299);
