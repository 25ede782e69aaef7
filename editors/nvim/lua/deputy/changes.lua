--- The unreviewed changes of the current session, kept up to date; keeping and undoing them.

local client = require('deputy.client')
local sessions = require('deputy.session')
local text = require('deputy.text')

local M = {}

--- Milliseconds that events are gathered before the list is requested again.
local PAUSE = 100
local EVENTS = { review_status = true, changes_reviewed = true, session_rewound = true }

M.files = {}
M.notes = {} ---@type string[]
---@type string? the session that the files belong to
M.session = nil

local watchers = {} ---@type fun()[]
local callbacks = {} ---@type fun()[]
local timer, requested, outdated = nil, false, false

--- Calls `watcher` after each update of the list.
---@param watcher fun()
function M.watch(watcher)
  table.insert(watchers, watcher)
end

local function receive(id, list)
  M.session, M.files, M.notes = id, list.files, list.notes or {}
  for _, watcher in ipairs(watchers) do
    watcher()
  end
end

--- Calls those who wait for an up-to-date list.
local function finish()
  local all = callbacks
  callbacks = {}
  for _, callback in ipairs(all) do
    callback()
  end
end

--- Requests the list again, and calls back when it is up to date. Concurrent calls share requests.
---@param callback fun()?
function M.refresh(callback)
  table.insert(callbacks, callback)
  if requested then
    outdated = true
    return
  end
  local session = sessions.get()
  if not session or session.stale or session.state.snapshot or not client.get() then
    if M.session then
      receive(nil, { files = {} })
    end
    return finish()
  end
  requested, outdated = true, false
  client.request('deputy/review/list', { sessionId = session.id }, function(list)
    requested = false
    receive(session.id, list or { files = {} })
    if outdated then
      M.refresh()
    else
      finish()
    end
  end, true)
end

local function refresh_soon()
  timer = timer or vim.defer_fn(function()
    timer = nil
    M.refresh()
  end, PAUSE)
end

local function name_of(path)
  return vim.fs.normalize(path, { expand_env = false })
end

--- The changed file in a buffer. Compares paths, because a URI can be encoded in several ways.
---@param buf integer
---@return deputy.ReviewFile?
function M.at(buf)
  local name = vim.api.nvim_buf_get_name(buf)
  if name == '' or vim.bo[buf].buftype ~= '' then
    return nil
  end
  name = name_of(name)
  return vim.iter(M.files):find(function(file)
    return name_of(vim.uri_to_fname(file.uri)) == name
  end)
end

--- The hunk at a line, counted from 1: one that contains it, or lines that were removed beside it.
---@param file deputy.ReviewFile
---@param line integer
---@return deputy.Hunk?
function M.hunk_at(file, line)
  local beside
  for _, hunk in ipairs(file.hunks) do
    local first, past = hunk.range.start.line + 1, hunk.range['end'].line + 1
    if first <= line and line < past then
      return hunk
    elseif first == past and (first == line or first == line + 1) then
      beside = beside or hunk
    end
  end
  return beside
end

--- All hunks, in the order of the list.
---@return { file: deputy.ReviewFile, hunk: deputy.Hunk }[]
function M.all()
  local all = {}
  for _, file in ipairs(M.files) do
    for _, hunk in ipairs(file.hunks) do
      table.insert(all, { file = file, hunk = hunk })
    end
  end
  return all
end

--- The hunk after the line `line` of `file`, or before it with `by` -1. After the last one comes the first.
---@param file deputy.ReviewFile?
---@param line integer
---@param by integer
---@return { file: deputy.ReviewFile, hunk: deputy.Hunk }?
function M.next(file, line, by)
  local all, order = M.all(), {}
  for index, one in ipairs(M.files) do
    order[one.uri] = index
  end
  local function place(at)
    return order[at.file.uri] * 1e9 + at.hunk.range.start.line + 1
  end
  local here = file and order[file.uri] * 1e9 + line or (by > 0 and 0 or math.huge)
  local found
  for _, at in ipairs(all) do
    if by > 0 and place(at) > here then
      return at
    elseif by < 0 and place(at) < here then
      found = at
    end
  end
  return found or all[by > 0 and 1 or #all]
end

--- `3 changes`.
---@param count integer
---@return string
function M.count(count)
  return text.plural(count, 'change')
end

--- Who changed a hunk, and how much: `fix the limit +1 -1`.
---@param hunk deputy.Hunk
---@return string
function M.title(hunk)
  local who = {}
  for _, change in ipairs(hunk.changes) do
    local label = change.label == 'primary' and 'Deputy' or text.one_line(change.label)
    if not vim.list_contains(who, label) then
      table.insert(who, label)
    end
  end
  local what = hunk.note and text.one_line(hunk.note) or ('+%d −%d'):format(#hunk.lines, #hunk.baseLines)
  return table.concat(who, ', ') .. ' ' .. what .. (hunk.mixed and ' edited by you' or '')
end

--- Keeps or undoes changes; reports those that were left.
---@param verb 'keep'|'undo'
---@param selector table `{ hunkIds = … }`, `{ uri = … }` or `{ all = true }`
---@param callback fun()? called when the list is requested again
function M.review(verb, selector, callback)
  local params = vim.tbl_extend('force', selector, { sessionId = M.session })
  client.request('deputy/review/' .. verb, params, function(result)
    local left = {}
    for _, conflict in ipairs(result.conflicts) do
      local name = vim.fn.fnamemodify(vim.uri_to_fname(conflict.uri), ':.')
      left[('%s: %s'):format(name, text.one_line(conflict.reason))] = true
    end
    if next(left) then
      vim.notify('Deputy: not changed: ' .. table.concat(vim.tbl_keys(left), ' '), vim.log.levels.WARN)
    end
    M.refresh(callback)
  end)
end

vim.api.nvim_create_autocmd('User', {
  group = vim.api.nvim_create_augroup('deputy.changes', {}),
  pattern = 'DeputyEvent',
  callback = function(event)
    if EVENTS[event.data.type] and event.data.sessionId == sessions.current then
      refresh_soon()
    end
  end,
})

-- Another session, one that was loaded, or a server that has ended.
sessions.watch(function()
  local session = sessions.get()
  if (session and not session.stale and session.id or nil) ~= M.session then
    refresh_soon()
  end
end)

return M
