-- The tables that Debezium watches, and the rows that are there before it starts.
SET TIME ZONE 'UTC';
CREATE EXTENSION hstore;
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN cents AS bigint;

-- Every kind of column, and columns that grow so large that PostgreSQL keeps
-- them apart (STORAGE EXTERNAL: uncompressed): unchanged, they are not in the log.
CREATE TABLE kinds (
  id        integer PRIMARY KEY,
  flag      boolean,
  small     smallint,
  big       bigint,
  domain    cents,
  real4     real,
  real8     double precision,
  exact     numeric(12, 2),
  free      numeric,
  price     money,
  word      varchar(40),
  padded    char(5),
  day       date,
  clock     time,
  clock_tz  timetz,
  moment    timestamp,
  moment3   timestamp(3),
  moment_tz timestamptz,
  span      interval,
  uid       uuid,
  doc       json,
  docb      jsonb,
  feeling   mood,
  raw       bytea,
  bits      bit(3),
  bit1      bit(1),
  pairs     hstore,
  words     text[],
  numbers   integer[],
  days      date[],
  exacts    numeric(6, 2)[],
  addr      inet,
  spot      point
);

CREATE TABLE large (
  id      integer PRIMARY KEY,
  counter integer,
  text_   text,
  docb    jsonb,
  raw     bytea,
  pairs   hstore,
  words   text[],
  ints    integer[],
  bigs    bigint[],
  reals   double precision[],
  exacts  numeric[],
  days    date[],
  moments timestamptz[],
  uids    uuid[]
);
ALTER TABLE large
  ALTER text_ SET STORAGE EXTERNAL, ALTER docb SET STORAGE EXTERNAL, ALTER raw SET STORAGE EXTERNAL,
  ALTER pairs SET STORAGE EXTERNAL, ALTER words SET STORAGE EXTERNAL, ALTER ints SET STORAGE EXTERNAL,
  ALTER bigs SET STORAGE EXTERNAL, ALTER reals SET STORAGE EXTERNAL, ALTER exacts SET STORAGE EXTERNAL,
  ALTER days SET STORAGE EXTERNAL, ALTER moments SET STORAGE EXTERNAL, ALTER uids SET STORAGE EXTERNAL,
  SET (toast_tuple_target = 128);

-- The same with the whole old row in the log.
CREATE TABLE full_large (id integer PRIMARY KEY, counter integer, text_ text);
ALTER TABLE full_large ALTER text_ SET STORAGE EXTERNAL, SET (toast_tuple_target = 128);
ALTER TABLE full_large REPLICA IDENTITY FULL;

CREATE TABLE orders (shop text, number bigint, status text, total numeric(10, 2), PRIMARY KEY (shop, number));

CREATE TABLE finished (id integer PRIMARY KEY);

INSERT INTO kinds VALUES (
  1, true, -7, 9007199254740993, 1250, 1.5, -2.25e-3, 1234567890.12, 123456789012345678901234567890.123456789, 12.34,
  'Zoë "q"', 'ab', '2026-02-28', '23:59:59.123456', '10:20:30.5+02', '2026-01-02 03:04:05.678901', '2026-01-02 03:04:05.678',
  '2026-07-01 12:00:00.25+02', '1 year 2 months 3 days 4 hours 5 minutes 6.789 seconds', '4c1f0c1e-0000-4000-8000-0123456789ab',
  '{"a": [1, 2]}', '{"b": null}', 'happy', '\x00ff10fe', B'101', B'1', 'a=>1, b=>NULL',
  '{red,"a,b",NULL}', '{1,-2}', '{2026-01-01,1969-12-31}', '{1.50,-0.01}', '192.0.2.7', '(1.5,-2)'
);
INSERT INTO kinds (id) VALUES (2);
INSERT INTO orders VALUES ('lyon', 1, 'NEW', 10.00);
