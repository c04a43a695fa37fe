-- What arrives in the service's tables: items by calls, people by files.
SET TIME ZONE 'UTC';
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');

-- A filler that no mapping reads makes rows large; their texts are then kept
-- apart and, unchanged, not in the log.
CREATE TABLE items (
  id        integer PRIMARY KEY,
  flag      boolean,
  big       bigint,
  exact     numeric(12, 2),
  word      text,
  day       date,
  moment    timestamp(3),
  moment_tz timestamptz,
  uid       uuid,
  docb      jsonb,
  feeling   mood,
  note      text,
  filler    text
);
ALTER TABLE items ALTER note SET STORAGE EXTERNAL, ALTER docb SET STORAGE EXTERNAL, ALTER filler SET STORAGE EXTERNAL,
  SET (toast_tuple_target = 128);

CREATE TABLE people (
  number     text PRIMARY KEY,
  mail       text,
  tags       text[] NOT NULL,
  born       date,
  vip        boolean NOT NULL,
  newsletter boolean NOT NULL,
  note       text,
  filler     text
);
ALTER TABLE people ALTER note SET STORAGE EXTERNAL, ALTER filler SET STORAGE EXTERNAL, SET (toast_tuple_target = 128);

CREATE TABLE finished (id integer PRIMARY KEY);

CREATE FUNCTION item(k integer, n integer) RETURNS items LANGUAGE sql VOLATILE AS $$
  SELECT k, n % 2 = 0, 9007199254740993 + n, (random() * 1e6 - 5e5)::numeric(12, 2), nullif('wörd "' || n || '", ', 'wörd "7", '),
    date '1900-01-01' + (random() * 60000)::integer, timestamp '1950-06-01 00:00:00.123' + random() * interval '100 years',
    timestamptz '1960-01-01 00:00:00+02' + random() * interval '80 years', md5(n::text)::uuid,
    jsonb_build_object('n', n, 'text', repeat('j', 100)), (ARRAY['sad', 'ok', 'happy', NULL])[1 + n % 4]::mood,
    repeat(chr(97 + n % 26), 200), repeat('f', 2500)
$$;

CREATE FUNCTION person(k integer, n integer) RETURNS people LANGUAGE sql VOLATILE AS $$
  SELECT 'P' || k, 'p' || n || '@example.com', (ARRAY['red', 'a,b', 'ünï "x"', '4'])[1 : 1 + n % 4], date '1900-01-01' + (random() * 40000)::integer,
    n % 3 = 0, n % 2 = 0, repeat(chr(97 + n % 26), 200), repeat('f', 2500)
$$;

INSERT INTO items SELECT (item(k, k)).* FROM generate_series(1, 40) k;
INSERT INTO people SELECT (person(k, k)).* FROM generate_series(1, 40) k;
