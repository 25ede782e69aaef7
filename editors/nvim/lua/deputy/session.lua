--- Sessions of the running server: their states, the user's open questions, and what is told when they change.

local client = require('deputy.client')
local reducer = require('deputy.reducer')
local text = require('deputy.text')

local M = {}

--- Milliseconds between two redraws, at least, however many events come.
local FRAME = 50
--- Drawing a very long session takes longer; between two redraws there are this many times as long for all else.
local REST = 4
local TICK = 1000
local MODEL_FAILURE = -32006

---@class deputy.Session
---@field id string
---@field cwd string?
---@field title string?
---@field model string?
---@field mode deputy.PermissionMode? that the user has set
---@field state deputy.State
---@field early table[] events that came while the session was loaded
---@field loading boolean
---@field stale boolean the server has gone since
---@field approved table<string, true> calls that the user has approved here, while they run

---@type table<string, deputy.Session>
M.sessions = {}
---@type string? the session that commands are about
M.current = nil

--- What the server told the user, apart from any session.
M.notices = {} ---@type string[]
local MOST_NOTICES = 5

--- What draws: called with the sessions that have changed.
local viewers = {} ---@type fun(session: deputy.Session)[]
local releases = {} ---@type table<string, fun()> by request id: ends the server's request
local dirty = {} ---@type table<string, boolean>
local frame, tick
local pause = FRAME
local noticed = false

---@param viewer fun(session: deputy.Session)
function M.watch(viewer)
  table.insert(viewers, viewer)
end

--- Tells the user's autocommands, whose failures are theirs: Neovim shows them, and they stop nothing here.
local function tell(name, data)
  pcall(vim.api.nvim_exec_autocmds, 'User', { pattern = name, modeline = false, data = data })
end

local draw

--- Elapsed times move while agents run, and no timer runs otherwise.
local function keep_time(session)
  local state = session.state
  if tick or state.snapshot or not state.turn and reducer.counts(state).running == 0 then
    return
  end
  tick = vim.defer_fn(function()
    tick = nil
    M.changed(session)
  end, TICK)
end

draw = function()
  frame = nil
  local began = vim.uv.hrtime()
  local ids = vim.tbl_keys(dirty)
  dirty = {}
  for _, id in ipairs(ids) do
    local session = M.sessions[id]
    if session then
      for _, viewer in ipairs(viewers) do
        viewer(session)
      end
      keep_time(session)
    end
  end
  pause = math.max(FRAME, math.floor(REST * (vim.uv.hrtime() - began) / 1e6))
end

--- Has a session drawn again, soon.
---@param session deputy.Session
function M.changed(session)
  dirty[session.id] = true
  frame = frame or vim.defer_fn(draw, pause)
end

---@return deputy.Session?
function M.get()
  return M.sessions[M.current or '']
end

local function put(id)
  local session = M.sessions[id]
  if not session then
    session = { id = id, state = reducer.new(), early = {}, loading = false, stale = false, approved = {} }
    M.sessions[id] = session
  end
  M.current = id
  return session
end

-- -- questions ---------------------------------------------------------------------------------------------------

--- All open questions of all sessions, in the order of asking.
---@return deputy.PermissionRequest[]
function M.questions()
  local all = {}
  for _, session in pairs(M.sessions) do
    if not session.stale then
      vim.list_extend(all, session.state.questions)
    end
  end
  table.sort(all, function(a, b)
    return a.requestId < b.requestId
  end)
  return all
end

---@param request_id string
---@return deputy.PermissionRequest?
function M.question(request_id)
  return vim.iter(M.questions()):find(function(question)
    return question.requestId == request_id
  end)
end

local function notice()
  local waiting = M.questions()
  if #waiting == 0 then
    noticed = false
  elseif not noticed then
    noticed = true
    if require('deputy.config').options.notify then
      -- Longer than the message line, it would wait for a key.
      vim.notify(text.cut('Deputy asks: ' .. text.one_line(waiting[1].title), math.max(20, vim.v.echospace - 1)))
    end
  end
end

local function release(request_id)
  local done = releases[request_id]
  releases[request_id] = nil
  if done then
    done()
  end
end

-- -- events ------------------------------------------------------------------------------------------------------

--- What the user has approved and was not done after all: the file has changed meanwhile, say.
local function tell_failure(session, event)
  if not session.approved[event.toolCallId] or event.status == 'in_progress' then
    return
  end
  session.approved[event.toolCallId] = nil
  if event.status == 'failed' then
    local words = 'Deputy: what you approved failed: ' .. text.one_line(event.content or '')
    vim.notify(text.cut(words, math.max(20, vim.v.echospace - 1)), vim.log.levels.WARN)
  end
end

local function fold(session, event)
  reducer.apply(session.state, event)
  if session.state.gap then
    session.state.gap = false
    M.load(session.id)
  end
  if event.type == 'permission_requested' then
    tell('DeputyQuestion', event)
    notice()
  elseif event.type == 'permission_resolved' then
    release(event.requestId)
    tell('DeputySettled', event)
    notice()
  elseif event.type == 'agent_started' or event.type == 'agent_finished' or event.type == 'turn_finished' then
    tell('DeputyAgents', event)
  elseif event.type == 'tool_call_update' then
    tell_failure(session, event)
  elseif event.type == 'session_changed' then
    session.asked = session.asked
      or vim.defer_fn(function()
        session.asked = nil
        M.describe(session)
      end, FRAME)
  end
end

client.on_event = function(event)
  local session = M.sessions[event.sessionId or '']
  if session and session.loading then
    table.insert(session.early, event)
  elseif session then
    fold(session, event)
    M.changed(session)
  end
  tell('DeputyEvent', event)
end

client.on_question = function(question, done)
  releases[question.requestId] = done
end

client.on_notice = function(words)
  if not vim.list_contains(M.notices, words) then
    table.insert(M.notices, words)
    M.notices = vim.list_slice(M.notices, math.max(1, #M.notices - MOST_NOTICES + 1))
  end
  vim.iter(vim.tbl_values(M.sessions)):each(M.changed)
end

client.on_gone = function()
  releases = {}
  for _, session in pairs(M.sessions) do
    session.stale = true
    reducer.interrupt(session.state, os.date('!%Y-%m-%dT%H:%M:%SZ') --[[@as string]])
    M.changed(session)
  end
  notice()
end

-- -- sessions ----------------------------------------------------------------------------------------------------

local awaiting = {} ---@type { arrived: fun(session: deputy.Session), failed: fun()? }[]

local function failed(what, error)
  local all = awaiting
  awaiting = {}
  for _, each in ipairs(all) do
    if each.failed then
      each.failed()
    end
  end
  -- Without a server the reason was told already.
  if error.code ~= client.NO_SERVER and error.code ~= client.LOST then
    vim.notify(('Deputy: %s: %s'):format(what, text.one_line(error.message)), vim.log.levels.ERROR)
  end
end

--- Opens a session and makes it the current one.
---@param callback fun(session: deputy.Session)
function M.new(callback)
  client.request('deputy/session/new', { cwd = vim.uri_from_fname(client.root()) }, function(opened, error)
    if error then
      failed('no session can be opened', error)
      return
    end
    local session = put(opened.sessionId)
    session.cwd = client.root()
    -- Its first events may be older than its place here.
    M.load(session.id, callback)
  end, true)
end

local function describe(session, info)
  session.title, session.model = info.title, info.model
  -- Lists leave a mode out that comes from the settings.
  session.mode = info.permissionMode or session.mode
end

--- The title, the model and the mode of a session, as lists have them.
---@param session deputy.Session
function M.describe(session)
  client.request('deputy/session/list', { limit = 50, includeArchived = true }, function(listed)
    for _, info in ipairs(listed and listed.sessions or {}) do
      if info.sessionId == session.id then
        describe(session, info)
        M.changed(session)
      end
    end
  end, true)
end

--- Asks for the transcript of a child, of which a loaded session knows only the outline.
---@param session deputy.Session
---@param agent_id string
function M.need_transcript(session, agent_id)
  session.asked_for = session.asked_for or {}
  if session.asked_for[agent_id] or not session.partial then
    return
  end
  session.asked_for[agent_id] = true
  local params = { sessionId = session.id, agentId = agent_id }
  client.request('deputy/agent/transcript', params, function(answer)
    reducer.put_transcript(session.state, agent_id, answer.entries)
    M.changed(session)
  end)
end

--- Loads a session, new or anew, and makes it the current one.
---@param id string
---@param callback fun(session: deputy.Session)?
function M.load(id, callback)
  local session = put(id)
  session.loading = true
  client.request('deputy/session/load', { sessionId = id }, function(loaded, error)
    session.loading = false
    if error then
      session.stale = true
      failed('the session cannot be loaded', error)
      return
    end
    session.state = reducer.loaded(loaded)
    describe(session, loaded.session)
    session.stale = false
    session.partial, session.asked_for = true, {}
    local early = session.early
    session.early = {}
    for _, event in ipairs(early) do
      fold(session, event)
    end
    notice()
    M.changed(session)
    if callback then
      callback(session)
    end
  end, true)
end

--- Shows the new title of a session.
---@param id string
---@param title string
function M.renamed(id, title)
  local session = M.sessions[id]
  if session then
    session.title = title
    M.changed(session)
  end
end

--- Forgets a session that is no more.
---@param id string
function M.forget(id)
  local session = M.sessions[id]
  M.sessions[id] = nil
  M.current = M.current ~= id and M.current or nil
  for _, viewer in ipairs(session and viewers or {}) do
    viewer(session)
  end
end

local function arrived(session)
  local all = awaiting
  awaiting = {}
  for _, each in ipairs(all) do
    each.arrived(session)
  end
end

--- Calls back with the current session, which is loaded again after a restart, or a new one.
---@param callback fun(session: deputy.Session)
---@param without fun()? when there is none to be had
function M.with(callback, without)
  local session = M.get()
  if session and not session.stale and not session.loading then
    return callback(session)
  end
  table.insert(awaiting, { arrived = callback, failed = without })
  if #awaiting > 1 then
    return
  elseif session then
    M.load(session.id, arrived)
  else
    M.new(arrived)
  end
end

--- Says something to the current session: at once, or when its turn has ended.
---@param prompt table[] blocks
---@param refused fun()? when it was not taken
function M.prompt(prompt, refused)
  M.with(function(session)
    local params = { sessionId = session.id, prompt = prompt, queue = true }
    client.request('deputy/session/prompt', params, function(_, error)
      -- What fails in a turn is shown by the event that ends it.
      -- One that was lost with its server had been taken: its session has it.
      if not error or error.code == MODEL_FAILURE or error.code == client.LOST then
        return
      end
      if error.code ~= client.NO_SERVER then
        vim.notify('Deputy: ' .. text.one_line(error.message), vim.log.levels.ERROR)
      end
      if refused then
        refused()
      end
    end, true)
  end, refused)
end

return M
