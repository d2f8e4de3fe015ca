-- psql 18: \sv nothing
SELECT 'nothing'::pg_catalog.regclass::pg_catalog.oid;
