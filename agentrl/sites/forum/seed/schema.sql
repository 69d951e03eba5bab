-- Votes are those of the visitor who is signed in; `points` holds the others'.
-- Deleted texts stay as rows: replies hang on them.
CREATE TABLE users (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE COLLATE NOCASE,
  biography TEXT,
  front_page TEXT NOT NULL DEFAULT 'subscribed',
  front_sort TEXT NOT NULL DEFAULT 'hot',
  theme TEXT NOT NULL DEFAULT 'light',
  messages_from TEXT NOT NULL DEFAULT 'everyone',
  created_at TEXT NOT NULL
);
CREATE TABLE forums (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE COLLATE NOCASE,
  title TEXT NOT NULL,
  description TEXT NOT NULL,
  sidebar TEXT NOT NULL,
  created_at TEXT NOT NULL
);
CREATE TABLE moderators (
  id INTEGER PRIMARY KEY,
  forum_id INTEGER NOT NULL REFERENCES forums,
  user_id INTEGER NOT NULL REFERENCES users,
  UNIQUE (forum_id, user_id)
);
CREATE TABLE subscriptions (
  id INTEGER PRIMARY KEY,
  forum_id INTEGER NOT NULL REFERENCES forums,
  user_id INTEGER NOT NULL REFERENCES users,
  created_at TEXT NOT NULL,
  UNIQUE (forum_id, user_id)
);
CREATE TABLE submissions (
  id INTEGER PRIMARY KEY,
  forum_id INTEGER NOT NULL REFERENCES forums,
  user_id INTEGER NOT NULL REFERENCES users,
  title TEXT NOT NULL,
  url TEXT,
  body TEXT,
  points INTEGER NOT NULL DEFAULT 1,
  is_pinned INTEGER NOT NULL DEFAULT 0,
  is_locked INTEGER NOT NULL DEFAULT 0,
  is_deleted INTEGER NOT NULL DEFAULT 0,
  created_at TEXT NOT NULL,
  updated_at TEXT
);
CREATE INDEX submissions_forum ON submissions (forum_id);
CREATE INDEX submissions_user ON submissions (user_id);
CREATE TABLE comments (
  id INTEGER PRIMARY KEY,
  submission_id INTEGER NOT NULL REFERENCES submissions,
  parent_id INTEGER REFERENCES comments,
  user_id INTEGER NOT NULL REFERENCES users,
  body TEXT NOT NULL,
  points INTEGER NOT NULL DEFAULT 1,
  is_deleted INTEGER NOT NULL DEFAULT 0,
  created_at TEXT NOT NULL,
  updated_at TEXT
);
CREATE INDEX comments_submission ON comments (submission_id, created_at);
CREATE INDEX comments_user ON comments (user_id);
CREATE INDEX comments_parent ON comments (parent_id);
CREATE TABLE submission_votes (
  id INTEGER PRIMARY KEY,
  submission_id INTEGER NOT NULL UNIQUE REFERENCES submissions,
  user_id INTEGER NOT NULL REFERENCES users,
  choice INTEGER NOT NULL
);
CREATE TABLE comment_votes (
  id INTEGER PRIMARY KEY,
  comment_id INTEGER NOT NULL UNIQUE REFERENCES comments,
  user_id INTEGER NOT NULL REFERENCES users,
  choice INTEGER NOT NULL
);
CREATE TABLE bookmarks (
  id INTEGER PRIMARY KEY,
  submission_id INTEGER NOT NULL UNIQUE REFERENCES submissions,
  user_id INTEGER NOT NULL REFERENCES users,
  created_at TEXT NOT NULL
);
CREATE TABLE blocks (
  id INTEGER PRIMARY KEY,
  user_id INTEGER NOT NULL REFERENCES users,
  blocked_id INTEGER NOT NULL REFERENCES users,
  note TEXT,
  created_at TEXT NOT NULL,
  UNIQUE (user_id, blocked_id)
);
CREATE TABLE threads (
  id INTEGER PRIMARY KEY,
  user_id INTEGER NOT NULL REFERENCES users,
  other_id INTEGER NOT NULL REFERENCES users,
  title TEXT NOT NULL,
  created_at TEXT NOT NULL
);
CREATE TABLE messages (
  id INTEGER PRIMARY KEY,
  thread_id INTEGER NOT NULL REFERENCES threads,
  user_id INTEGER NOT NULL REFERENCES users,
  body TEXT NOT NULL,
  created_at TEXT NOT NULL
);
CREATE INDEX messages_thread ON messages (thread_id);
CREATE VIEW posts AS
SELECT s.*, f.name AS forum, u.name AS author,
  s.points + coalesce(v.choice, 0) AS score,
  coalesce(v.choice, 0) AS vote,
  b.id AS bookmark,
  (SELECT count(*) FROM comments c WHERE c.submission_id = s.id
   AND NOT c.is_deleted) AS comments,
  (SELECT max(c.created_at) FROM comments c WHERE c.submission_id = s.id)
   AS commented_at
FROM submissions s
JOIN forums f ON f.id = s.forum_id
JOIN users u ON u.id = s.user_id
LEFT JOIN submission_votes v ON v.submission_id = s.id
LEFT JOIN bookmarks b ON b.submission_id = s.id;
CREATE VIEW replies AS
SELECT c.*, u.name AS author, s.title, f.name AS forum,
  s.is_locked, s.is_deleted AS is_orphan,
  c.points + coalesce(v.choice, 0) AS score,
  coalesce(v.choice, 0) AS vote
FROM comments c
JOIN users u ON u.id = c.user_id
JOIN submissions s ON s.id = c.submission_id
JOIN forums f ON f.id = s.forum_id
LEFT JOIN comment_votes v ON v.comment_id = c.id;
