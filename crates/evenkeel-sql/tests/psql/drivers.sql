-- drivers and mappers: types, tables, columns, keys
SELECT t.typname, t.typtype, t.typelem, r.rngsubtype, t.typbasetype, n.nspname, t.typrelid
FROM pg_catalog.pg_type t
LEFT OUTER JOIN pg_catalog.pg_range r ON r.rngtypid = t.oid
INNER JOIN pg_catalog.pg_namespace n ON t.typnamespace = n.oid
WHERE t.oid = 1043;

SELECT pg_catalog.pg_class.relname
FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace
WHERE pg_catalog.pg_class.relname = 'accounts' AND pg_catalog.pg_class.relkind = ANY (ARRAY['r', 'p', 'f', 'v', 'm']) AND pg_catalog.pg_table_is_visible(pg_catalog.pg_class.oid) AND pg_catalog.pg_namespace.nspname != 'pg_catalog';

SELECT a.attname, format_type(a.atttypid, a.atttypmod) AS data_type
FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
WHERE i.indrelid = 'accounts'::regclass AND i.indisprimary;

SELECT a.attname, format_type(a.atttypid, a.atttypmod), pg_get_expr(d.adbin, d.adrelid), a.attnotnull, a.atttypid, a.atttypmod
FROM pg_attribute a LEFT JOIN pg_attrdef d ON a.attrelid = d.adrelid AND a.attnum = d.adnum
WHERE a.attrelid = '"accounts"'::regclass AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum;

SELECT c.relname, CASE WHEN c.relispartition THEN 'p' WHEN c.relkind IN ('m', 'v') THEN 'v' ELSE 't' END, obj_description(c.oid, 'pg_class')
FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('f', 'm', 'p', 'r', 'v') AND n.nspname NOT IN ('pg_catalog', 'pg_toast', 'information_schema') AND pg_catalog.pg_table_is_visible(c.oid)
ORDER BY 1;

SELECT table_name, column_name, data_type, character_maximum_length, is_nullable, column_default
FROM information_schema.columns WHERE table_schema = 'public' ORDER BY table_name, ordinal_position;

SELECT tc.constraint_name, tc.constraint_type, kcu.column_name
FROM information_schema.table_constraints tc JOIN information_schema.key_column_usage kcu ON tc.constraint_name = kcu.constraint_name AND tc.table_schema = kcu.table_schema
WHERE tc.table_schema = 'public' ORDER BY 1, 3;

SELECT schemaname, tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY indexname;

SELECT 'accounts'::regclass, 'accounts'::regclass::text, to_regclass('nothing'), 'int4'::regtype, 1043::regtype::text;

SELECT c.oid::regclass AS name, c.relnamespace::regnamespace FROM pg_class c WHERE c.oid = 'public.accounts'::regclass;

SELECT count(*) FROM pg_class WHERE relname LIKE 'accounts%' AND relnamespace = 'public'::regnamespace;

SELECT datname, (SELECT rolname FROM pg_roles r WHERE r.oid = d.datdba) AS owner FROM pg_database d WHERE datname = current_database();

SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg\_%' ORDER BY nspname;

SELECT conname, pg_get_constraintdef(c.oid) FROM pg_constraint c JOIN pg_class t ON t.oid = c.conrelid WHERE t.relname = 'Odd Name' ORDER BY 1;

SELECT i.relname, array_position(ix.indkey, a.attnum) IS NOT NULL FROM pg_class t JOIN pg_index ix ON t.oid = ix.indrelid JOIN pg_class i ON i.oid = ix.indexrelid JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = ANY (ix.indkey) WHERE t.relname = 'accounts' ORDER BY 1;

SELECT tableoid::regclass, oid::regclass FROM pg_class WHERE relname = 'accounts';

SELECT attrelid::regclass, attname FROM pg_attribute WHERE attrelid = 'accounts'::regclass AND attnum = ANY ('{1,2}'::int2[]) ORDER BY attnum;

SELECT c.relname, (SELECT count(*) FROM pg_index i WHERE i.indrelid = c.oid) FROM pg_class c WHERE relname IN ('accounts', 'Odd Name') ORDER BY 1;

SELECT format('%s %I %L %%', 'a', 'b c', 'it''s');

SELECT c.relname, NULL::pg_catalog.text FROM pg_catalog.pg_class c WHERE c.relkind IN ('r', 'S', 'v', 'm', 'f', 'p') AND (c.relname) LIKE 'acc%' AND pg_catalog.pg_table_is_visible(c.oid) AND c.relnamespace <> (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = 'pg_catalog') UNION ALL SELECT NULL::pg_catalog.text, n.nspname FROM pg_catalog.pg_namespace n WHERE n.nspname LIKE 'acc%' AND n.nspname NOT LIKE E'pg\\_%' LIMIT 1000;
