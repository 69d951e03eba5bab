-- Roles are GitLab's numbers: 10 guest, 20 reporter, 30 developer, 40 maintainer,
-- 50 owner. The hash of a commit follows from its id, see `show.sha`. A branch
-- shows the commits and files of its base, too: those of the branch, maybe of
-- another project, that it was made from.
CREATE TABLE users (
  id INTEGER PRIMARY KEY,
  username TEXT NOT NULL UNIQUE COLLATE NOCASE,
  name TEXT NOT NULL,
  email TEXT NOT NULL,
  pronouns TEXT NOT NULL DEFAULT '',
  job_title TEXT NOT NULL DEFAULT '',
  organization TEXT NOT NULL DEFAULT '',
  location TEXT NOT NULL DEFAULT '',
  website TEXT NOT NULL DEFAULT '',
  bio TEXT NOT NULL DEFAULT '',
  status TEXT NOT NULL DEFAULT '',
  is_busy INTEGER NOT NULL DEFAULT 0,
  notification_level TEXT NOT NULL DEFAULT 'participating',
  theme TEXT NOT NULL DEFAULT 'light',
  created_at TEXT NOT NULL
);
CREATE TABLE account_tokens (
  id INTEGER PRIMARY KEY,
  user_id INTEGER NOT NULL UNIQUE REFERENCES users,
  feed TEXT NOT NULL,
  incoming_email TEXT NOT NULL,
  static_object TEXT NOT NULL
);
CREATE TABLE access_tokens (
  id INTEGER PRIMARY KEY,
  user_id INTEGER NOT NULL REFERENCES users,
  name TEXT NOT NULL,
  scopes TEXT NOT NULL,
  expires_on TEXT,
  created_at TEXT NOT NULL
);
CREATE TABLE ssh_keys (
  id INTEGER PRIMARY KEY,
  user_id INTEGER NOT NULL REFERENCES users,
  title TEXT NOT NULL,
  key TEXT NOT NULL UNIQUE,
  expires_on TEXT,
  created_at TEXT NOT NULL
);
CREATE TABLE follows (
  id INTEGER PRIMARY KEY,
  user_id INTEGER NOT NULL REFERENCES users,
  followed_id INTEGER NOT NULL REFERENCES users,
  UNIQUE (user_id, followed_id)
);
CREATE TABLE groups (
  id INTEGER PRIMARY KEY,
  path TEXT NOT NULL UNIQUE COLLATE NOCASE,
  name TEXT NOT NULL,
  description TEXT NOT NULL,
  visibility TEXT NOT NULL,
  created_at TEXT NOT NULL
);
CREATE TABLE group_members (
  id INTEGER PRIMARY KEY,
  group_id INTEGER NOT NULL REFERENCES groups ON DELETE CASCADE,
  user_id INTEGER NOT NULL REFERENCES users,
  role INTEGER NOT NULL,
  expires_on TEXT,
  created_at TEXT NOT NULL,
  UNIQUE (group_id, user_id)
);
CREATE TABLE projects (
  id INTEGER PRIMARY KEY,
  user_id INTEGER REFERENCES users,
  group_id INTEGER REFERENCES groups,
  forked_from_id INTEGER REFERENCES projects ON DELETE SET NULL,
  path TEXT NOT NULL COLLATE NOCASE,
  name TEXT NOT NULL,
  description TEXT NOT NULL,
  topics TEXT NOT NULL DEFAULT '',
  visibility TEXT NOT NULL,
  created_at TEXT NOT NULL,
  UNIQUE (user_id, path),
  UNIQUE (group_id, path)
);
CREATE INDEX projects_forks ON projects (forked_from_id);
CREATE TABLE members (
  id INTEGER PRIMARY KEY,
  project_id INTEGER NOT NULL REFERENCES projects ON DELETE CASCADE,
  user_id INTEGER NOT NULL REFERENCES users,
  role INTEGER NOT NULL,
  expires_on TEXT,
  created_at TEXT NOT NULL,
  UNIQUE (project_id, user_id)
);
CREATE TABLE stars (
  id INTEGER PRIMARY KEY,
  project_id INTEGER NOT NULL REFERENCES projects ON DELETE CASCADE,
  user_id INTEGER NOT NULL REFERENCES users,
  UNIQUE (project_id, user_id)
);
CREATE TABLE branches (
  id INTEGER PRIMARY KEY,
  project_id INTEGER NOT NULL REFERENCES projects ON DELETE CASCADE,
  base_id INTEGER REFERENCES branches ON DELETE SET NULL,
  name TEXT NOT NULL,
  is_default INTEGER NOT NULL DEFAULT 0,
  created_at TEXT NOT NULL,
  UNIQUE (project_id, name)
);
CREATE INDEX branches_base ON branches (base_id);
CREATE TABLE commits (
  id INTEGER PRIMARY KEY,
  branch_id INTEGER NOT NULL REFERENCES branches ON DELETE CASCADE,
  author_id INTEGER NOT NULL REFERENCES users,
  message TEXT NOT NULL,
  created_at TEXT NOT NULL
);
CREATE INDEX commits_branch ON commits (branch_id, created_at);
CREATE TABLE files (
  id INTEGER PRIMARY KEY,
  branch_id INTEGER NOT NULL REFERENCES branches ON DELETE CASCADE,
  commit_id INTEGER NOT NULL REFERENCES commits ON DELETE CASCADE,
  path TEXT NOT NULL,
  content TEXT NOT NULL,
  UNIQUE (branch_id, path)
);
CREATE INDEX files_commit ON files (commit_id);
CREATE TABLE labels (
  id INTEGER PRIMARY KEY,
  project_id INTEGER NOT NULL REFERENCES projects ON DELETE CASCADE,
  name TEXT NOT NULL COLLATE NOCASE,
  description TEXT NOT NULL DEFAULT '',
  color TEXT NOT NULL,
  UNIQUE (project_id, name)
);
CREATE TABLE milestones (
  id INTEGER PRIMARY KEY,
  project_id INTEGER NOT NULL REFERENCES projects ON DELETE CASCADE,
  title TEXT NOT NULL,
  description TEXT NOT NULL DEFAULT '',
  state TEXT NOT NULL DEFAULT 'active',
  starts_on TEXT,
  due_on TEXT,
  created_at TEXT NOT NULL,
  UNIQUE (project_id, title)
);
CREATE TABLE issues (
  id INTEGER PRIMARY KEY,
  project_id INTEGER NOT NULL REFERENCES projects ON DELETE CASCADE,
  number INTEGER NOT NULL,
  author_id INTEGER NOT NULL REFERENCES users,
  assignee_id INTEGER REFERENCES users,
  milestone_id INTEGER REFERENCES milestones ON DELETE SET NULL,
  title TEXT NOT NULL,
  description TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'opened',
  due_on TEXT,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  UNIQUE (project_id, number)
);
CREATE INDEX issues_author ON issues (author_id);
CREATE INDEX issues_assignee ON issues (assignee_id);
CREATE INDEX issues_milestone ON issues (milestone_id);
CREATE TABLE issue_labels (
  id INTEGER PRIMARY KEY,
  issue_id INTEGER NOT NULL REFERENCES issues ON DELETE CASCADE,
  label_id INTEGER NOT NULL REFERENCES labels ON DELETE CASCADE,
  UNIQUE (issue_id, label_id)
);
CREATE INDEX issue_labels_label ON issue_labels (label_id);
CREATE TABLE merge_requests (
  id INTEGER PRIMARY KEY,
  project_id INTEGER NOT NULL REFERENCES projects ON DELETE CASCADE,
  number INTEGER NOT NULL,
  author_id INTEGER NOT NULL REFERENCES users,
  assignee_id INTEGER REFERENCES users,
  reviewer_id INTEGER REFERENCES users,
  milestone_id INTEGER REFERENCES milestones ON DELETE SET NULL,
  source_branch TEXT NOT NULL,
  target_branch TEXT NOT NULL,
  title TEXT NOT NULL,
  description TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'opened',
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  UNIQUE (project_id, number)
);
CREATE INDEX merge_requests_author ON merge_requests (author_id);
CREATE INDEX merge_requests_assignee ON merge_requests (assignee_id);
CREATE INDEX merge_requests_reviewer ON merge_requests (reviewer_id);
CREATE INDEX merge_requests_milestone ON merge_requests (milestone_id);
CREATE TABLE approvals (
  id INTEGER PRIMARY KEY,
  merge_request_id INTEGER NOT NULL REFERENCES merge_requests
    ON DELETE CASCADE,
  user_id INTEGER NOT NULL REFERENCES users,
  UNIQUE (merge_request_id, user_id)
);
CREATE TABLE comments (
  id INTEGER PRIMARY KEY,
  issue_id INTEGER REFERENCES issues ON DELETE CASCADE,
  merge_request_id INTEGER REFERENCES merge_requests ON DELETE CASCADE,
  author_id INTEGER NOT NULL REFERENCES users,
  body TEXT NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT
);
CREATE INDEX comments_issue ON comments (issue_id);
CREATE INDEX comments_merge_request ON comments (merge_request_id);
CREATE TABLE todos (
  id INTEGER PRIMARY KEY,
  user_id INTEGER NOT NULL REFERENCES users,
  author_id INTEGER NOT NULL REFERENCES users,
  issue_id INTEGER REFERENCES issues ON DELETE CASCADE,
  merge_request_id INTEGER REFERENCES merge_requests ON DELETE CASCADE,
  kind TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'pending',
  created_at TEXT NOT NULL
);
CREATE INDEX todos_issue ON todos (issue_id);
CREATE INDEX todos_merge_request ON todos (merge_request_id);
CREATE VIEW paths AS
SELECT p.id, p.visibility, p.group_id, p.name,
  coalesce(u.username, g.path) || '/' || p.path AS full_path
FROM projects p
LEFT JOIN users u ON u.id = p.user_id
LEFT JOIN groups g ON g.id = p.group_id;
CREATE VIEW repositories AS
SELECT p.*, coalesce(u.username, g.path) AS space,
  coalesce(u.name, g.name) AS space_name,
  coalesce(u.username, g.path) || '/' || p.path AS full_path,
  b.id AS branch_id, b.name AS branch,
  (SELECT count(*) FROM stars s WHERE s.project_id = p.id) AS stars,
  (SELECT count(*) FROM projects f WHERE f.forked_from_id = p.id) AS forks,
  coalesce(
    (SELECT max(c.created_at) FROM commits c WHERE c.branch_id = b.id),
    p.created_at
  ) AS pushed_at
FROM projects p
LEFT JOIN users u ON u.id = p.user_id
LEFT JOIN groups g ON g.id = p.group_id
LEFT JOIN branches b ON b.project_id = p.id AND b.is_default;
CREATE VIEW grants AS
SELECT project_id, user_id, role, expires_on, created_at, id AS member_id,
  NULL AS group_id
FROM members
UNION ALL
SELECT p.id, m.user_id, m.role, m.expires_on, m.created_at, NULL, m.group_id
FROM group_members m JOIN projects p ON p.group_id = m.group_id;
CREATE VIEW issue_items AS
SELECT i.*, p.full_path, p.visibility, p.group_id, u.username AS author,
  u.name AS author_name, a.username AS assignee, m.title AS milestone,
  (SELECT count(*) FROM comments c WHERE c.issue_id = i.id) AS comments,
  max(
    i.updated_at,
    coalesce(
      (SELECT max(c.created_at) FROM comments c WHERE c.issue_id = i.id), ''
    )
  ) AS touched_at
FROM issues i
JOIN paths p ON p.id = i.project_id
JOIN users u ON u.id = i.author_id
LEFT JOIN users a ON a.id = i.assignee_id
LEFT JOIN milestones m ON m.id = i.milestone_id;
CREATE VIEW merge_items AS
SELECT i.*, p.full_path, p.visibility, p.group_id, u.username AS author,
  u.name AS author_name, a.username AS assignee, r.username AS reviewer,
  m.title AS milestone, NULL AS due_on,
  (SELECT count(*) FROM comments c WHERE c.merge_request_id = i.id)
    AS comments,
  max(
    i.updated_at,
    coalesce(
      (SELECT max(c.created_at) FROM comments c
       WHERE c.merge_request_id = i.id), ''
    )
  ) AS touched_at
FROM merge_requests i
JOIN paths p ON p.id = i.project_id
JOIN users u ON u.id = i.author_id
LEFT JOIN users a ON a.id = i.assignee_id
LEFT JOIN users r ON r.id = i.reviewer_id
LEFT JOIN milestones m ON m.id = i.milestone_id;
CREATE VIEW found_milestones AS
SELECT m.*, p.full_path, p.visibility
FROM milestones m JOIN paths p ON p.id = m.project_id;
CREATE VIEW found_commits AS
SELECT c.*, b.project_id, p.full_path, p.visibility, u.name AS author_name
FROM commits c
JOIN branches b ON b.id = c.branch_id
JOIN paths p ON p.id = b.project_id
JOIN users u ON u.id = c.author_id;
