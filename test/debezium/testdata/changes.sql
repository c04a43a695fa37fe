-- What happens while Debezium watches.
SET TIME ZONE 'UTC';

-- Dates before 1970, negative and whole numbers where a fraction could stand.
INSERT INTO kinds (id, flag, exact, free, price, day, clock, moment, moment_tz, span, raw, feeling, pairs, words, numbers)
VALUES (3, false, -0.05, 1e3, -0.5, '1900-03-01', '00:00:00', '1815-12-10 00:00:00', '1969-12-31 23:59:59.999999+00',
        '-1 days', '', 'sad', '', '{}', '{}');
UPDATE kinds SET word = 'changed', exact = 0 WHERE id = 1;
UPDATE kinds SET free = 'NaN', real8 = 'Infinity', moment = 'infinity', day = 'infinity' WHERE id = 2;

INSERT INTO large SELECT 1, 1, repeat('x', 250), jsonb_build_object('k', repeat('y', 250)),
  decode(repeat('ab', 250), 'hex'), hstore('k', repeat('z', 250)), array_agg('word ' || i), array_agg(i), array_agg(i::bigint),
  array_agg(i::double precision), array_agg(i::numeric), array_agg(date '2026-01-01' + i), array_agg(timestamptz '2026-01-01 00:00:00Z'),
  array_agg(md5(i::text)::uuid) FROM generate_series(1, 30) i;
UPDATE large SET counter = 2 WHERE id = 1;
UPDATE large SET text_ = 'short', counter = 3 WHERE id = 1;
UPDATE large SET id = 2 WHERE id = 1;

INSERT INTO full_large VALUES (1, 1, repeat('x', 2100));
UPDATE full_large SET counter = 2 WHERE id = 1;
UPDATE full_large SET id = 2 WHERE id = 1;
DELETE FROM full_large WHERE id = 2;

INSERT INTO orders VALUES ('lyon', 2, 'NEW', 20.50), ('nantes', 3, NULL, NULL);
UPDATE orders SET status = 'PAID' WHERE number = 1;
UPDATE orders SET number = 4 WHERE number = 2;
DELETE FROM orders WHERE number = 3;
SELECT pg_logical_emit_message(true, 'note', 'hello');
TRUNCATE orders;

INSERT INTO finished VALUES (1);
