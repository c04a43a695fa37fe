-- A few hundred transactions as applications make them, the same in every run.
SET TIME ZONE 'UTC';
DO $$
DECLARE
  n integer;
  k integer;
BEGIN
  PERFORM setseed(0.42);
  FOR n IN 1..400 LOOP
    k := 1 + floor(random() * 60);
    CASE floor(random() * 7)::integer
      WHEN 0 THEN
        DELETE FROM items WHERE id = k;
        DELETE FROM people WHERE number = 'P' || k;
      WHEN 1, 2 THEN
        DELETE FROM items WHERE id = k;
        INSERT INTO items SELECT (item(k, n)).*;
        INSERT INTO people SELECT (person(k, n)).* ON CONFLICT (number) DO UPDATE SET mail = excluded.mail, tags = excluded.tags, vip = excluded.vip;
      WHEN 3 THEN -- the large ones stay as they are
        UPDATE items SET word = 'changed ' || n, exact = -exact, day = NULL WHERE id = k;
        UPDATE people SET mail = 'new' || n || '@example.com', newsletter = NOT newsletter WHERE number = 'P' || k;
      WHEN 4 THEN
        UPDATE items SET note = repeat(chr(97 + n % 26), 150), moment_tz = NULL WHERE id = k;
        UPDATE people SET note = repeat(chr(97 + n % 26), 150), born = born + 1 WHERE number = 'P' || k;
      WHEN 5 THEN -- the key changes, and with it everything that could be kept apart
        UPDATE items SET id = 1000 + n, note = note || '', docb = docb || '{}' WHERE id = k;
        UPDATE people SET number = 'M' || n, note = note || '', tags = tags || 'moved'::text WHERE number = 'P' || k;
      ELSE
        UPDATE items SET moment = moment + interval '1 day', flag = NULL, note = '' WHERE id = k;
        UPDATE people SET filler = repeat('g', 2500) WHERE number = 'P' || k;
    END CASE;
    COMMIT;
  END LOOP;
END $$;
INSERT INTO finished VALUES (1);
