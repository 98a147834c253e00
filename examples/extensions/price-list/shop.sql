CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, cents INTEGER NOT NULL);
CREATE TABLE price_changes (product INTEGER NOT NULL REFERENCES products (id), old_cents INTEGER, new_cents INTEGER);

INSERT INTO products (id, name, cents) VALUES
  (1, 'tea', 450),
  (2, 'coffee', 790),
  (3, 'cocoa; dark', 620);
