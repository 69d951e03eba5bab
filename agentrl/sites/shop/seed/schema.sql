-- Amounts are in cents; texts of time as 'YYYY-MM-DD HH:MM:SS'.
CREATE TABLE categories (
  id INTEGER PRIMARY KEY,
  parent_id INTEGER REFERENCES categories,
  name TEXT NOT NULL,
  path TEXT NOT NULL UNIQUE,  -- of its page, without '.html'
  position INTEGER NOT NULL
);
CREATE TABLE products (
  id INTEGER PRIMARY KEY,
  sku TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  slug TEXT NOT NULL UNIQUE,  -- of its page, without '.html'
  category_id INTEGER NOT NULL REFERENCES categories,
  kind TEXT NOT NULL,  -- such as 'Desk Organizer'
  brand TEXT NOT NULL,
  price_cents INTEGER NOT NULL,  -- that is paid
  list_cents INTEGER,  -- before a reduction; NULL: it is not reduced
  description TEXT NOT NULL,
  quantity INTEGER NOT NULL,  -- in stock; orders do not lower it by themselves
  enabled INTEGER NOT NULL DEFAULT 1,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL
);
CREATE INDEX products_by_category ON products (category_id);
CREATE TABLE attributes (
  id INTEGER PRIMARY KEY,
  product_id INTEGER NOT NULL REFERENCES products,
  name TEXT NOT NULL,
  value TEXT NOT NULL
);
CREATE INDEX attributes_by_product ON attributes (product_id);
CREATE TABLE options (  -- a buyer chooses one value for each name
  id INTEGER PRIMARY KEY,
  product_id INTEGER NOT NULL REFERENCES products,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  UNIQUE (product_id, name, value)
);
CREATE TABLE customers (
  id INTEGER PRIMARY KEY,
  first_name TEXT NOT NULL,
  last_name TEXT NOT NULL,
  email TEXT NOT NULL UNIQUE,
  billing_id INTEGER REFERENCES addresses,  -- their default addresses
  shipping_id INTEGER REFERENCES addresses,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL
);
CREATE TABLE addresses (
  id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers,
  first_name TEXT NOT NULL,
  last_name TEXT NOT NULL,
  street TEXT NOT NULL,
  city TEXT NOT NULL,
  region TEXT NOT NULL,
  postcode TEXT NOT NULL,
  phone TEXT NOT NULL
);
CREATE INDEX addresses_by_customer ON addresses (customer_id);
CREATE TABLE orders (  -- its number is its id in nine digits
  id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers,
  -- pending, processing, complete, canceled, closed, on_hold or fraud
  status TEXT NOT NULL,
  first_name TEXT NOT NULL,  -- where it goes
  last_name TEXT NOT NULL,
  street TEXT NOT NULL,
  city TEXT NOT NULL,
  region TEXT NOT NULL,
  postcode TEXT NOT NULL,
  phone TEXT NOT NULL,
  shipping TEXT NOT NULL,  -- name of the method
  shipping_cents INTEGER NOT NULL,
  coupon TEXT,  -- its code
  discount_cents INTEGER NOT NULL DEFAULT 0,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL
);
CREATE INDEX orders_by_customer ON orders (customer_id);
CREATE INDEX orders_by_time ON orders (created_at);
CREATE TABLE order_items (  -- name, sku and price are those of the time
  id INTEGER PRIMARY KEY,
  order_id INTEGER NOT NULL REFERENCES orders,
  product_id INTEGER NOT NULL REFERENCES products,
  name TEXT NOT NULL,
  sku TEXT NOT NULL,
  options TEXT NOT NULL,  -- such as 'Size: M, Colour: Navy', or empty
  price_cents INTEGER NOT NULL,
  quantity INTEGER NOT NULL
);
CREATE INDEX order_items_by_order ON order_items (order_id);
CREATE INDEX order_items_by_product ON order_items (product_id);
CREATE VIEW order_totals AS
  SELECT o.id AS order_id,
    (SELECT sum(i.price_cents * i.quantity) FROM order_items i
      WHERE i.order_id = o.id) AS subtotal_cents,
    (SELECT sum(i.price_cents * i.quantity) FROM order_items i
      WHERE i.order_id = o.id) + o.shipping_cents - o.discount_cents
      AS total_cents
  FROM orders o;
CREATE TABLE shipments (
  id INTEGER PRIMARY KEY,
  order_id INTEGER NOT NULL REFERENCES orders,
  carrier TEXT NOT NULL,
  tracking TEXT NOT NULL,
  created_at TEXT NOT NULL
);
CREATE INDEX shipments_by_order ON shipments (order_id);
CREATE TABLE reviews (
  id INTEGER PRIMARY KEY,
  product_id INTEGER NOT NULL REFERENCES products,
  customer_id INTEGER REFERENCES customers,  -- NULL: a guest
  nickname TEXT NOT NULL,
  title TEXT NOT NULL,
  text TEXT NOT NULL,
  stars INTEGER NOT NULL,
  status TEXT NOT NULL,  -- approved, pending or rejected
  created_at TEXT NOT NULL
);
CREATE INDEX reviews_by_product ON reviews (product_id);
CREATE TABLE wishlist_items (
  id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers,
  product_id INTEGER NOT NULL REFERENCES products,
  created_at TEXT NOT NULL,
  UNIQUE (customer_id, product_id)
);
CREATE TABLE compare_items (
  id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers,
  product_id INTEGER NOT NULL REFERENCES products,
  UNIQUE (customer_id, product_id)
);
CREATE TABLE carts (
  id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL UNIQUE REFERENCES customers,
  coupon TEXT  -- code of a price rule
);
CREATE TABLE cart_items (
  id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers,
  product_id INTEGER NOT NULL REFERENCES products,
  options TEXT NOT NULL,
  quantity INTEGER NOT NULL,
  UNIQUE (customer_id, product_id, options)
);
CREATE TABLE price_rules (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  code TEXT UNIQUE,  -- coupon; NULL: none, and carts do not get it
  kind TEXT NOT NULL,  -- 'percent' or 'fixed', of the whole cart
  amount INTEGER NOT NULL,  -- percent, or cents
  active INTEGER NOT NULL,
  starts_on TEXT,  -- YYYY-MM-DD
  ends_on TEXT,  -- the last day
  created_at TEXT NOT NULL
);
CREATE TABLE subscribers (  -- of the newsletter
  id INTEGER PRIMARY KEY,
  email TEXT NOT NULL UNIQUE,
  created_at TEXT NOT NULL
);
CREATE TABLE messages (  -- of the contact form
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  email TEXT NOT NULL,
  phone TEXT NOT NULL,
  text TEXT NOT NULL,
  created_at TEXT NOT NULL
);
CREATE TABLE pages (
  id INTEGER PRIMARY KEY,
  slug TEXT NOT NULL UNIQUE,
  title TEXT NOT NULL,
  text TEXT NOT NULL,
  enabled INTEGER NOT NULL DEFAULT 1,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL
);

CREATE TABLE invoices (  -- of whole orders; its number is its id
  id INTEGER PRIMARY KEY,
  order_id INTEGER NOT NULL UNIQUE REFERENCES orders,
  created_at TEXT NOT NULL
);
CREATE TABLE refunds (  -- of whole orders; its number is its id
  id INTEGER PRIMARY KEY,
  order_id INTEGER NOT NULL UNIQUE REFERENCES orders,
  created_at TEXT NOT NULL
);
CREATE TABLE order_notes (
  id INTEGER PRIMARY KEY,
  order_id INTEGER NOT NULL REFERENCES orders,
  text TEXT NOT NULL,
  notified INTEGER NOT NULL,  -- 1: it was sent to the customer
  created_at TEXT NOT NULL
);
CREATE INDEX order_notes_by_order ON order_notes (order_id);
CREATE TABLE search_terms (
  id INTEGER PRIMARY KEY,
  text TEXT NOT NULL UNIQUE,
  results INTEGER NOT NULL,
  uses INTEGER NOT NULL,
  updated_at TEXT NOT NULL
);
CREATE TABLE themes (
  id INTEGER PRIMARY KEY,
  title TEXT NOT NULL UNIQUE,
  parent_id INTEGER REFERENCES themes,
  path TEXT NOT NULL,
  colours TEXT NOT NULL  -- text, background and accent
);
