--- Sessions of the running server: their states, the open permission requests, and notifications about changes.

local client = require('deputy.client')
local reducer = require('deputy.reducer')
local text = require('deputy.text')

local M = {}

--- Minimum time between two redraws in milliseconds.
local FRAME = 50
--- After a slow redraw, the pause is this many times as long as the redraw took.
local REST = 4
local TICK = 1000
local MODEL_FAILURE = -32006
--- Entries of a transcript that are loaded at first, and each time that earlier ones are shown.
M.PAGE = 200

---@class deputy.Session
---@field id string
---@field cwd string?
---@field title string?
---@field model string?
---@field effort deputy.Effort?
---@field mode deputy.PermissionMode? set by the user
---@field state deputy.State
---@field early table[] events that arrived while the session was loading
---@field loading boolean
---@field stale boolean the server has ended since
---@field approved table<string, true> running calls that the user approved here

---@type table<string, deputy.Session>
M.sessions = {}
---@type string? the session that commands apply to
M.current = nil

--- Messages of the server that belong to no session.
M.notices = {} ---@type string[]
local MOST_NOTICES = 5

--- Called with each changed session.
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

--- Runs `User` autocommands; Neovim shows their errors, which are ignored here.
local function emit(name, data)
  pcall(vim.api.nvim_exec_autocmds, 'User', { pattern = name, modeline = false, data = data })
end

local draw

--- Updates elapsed times while agents run; otherwise no timer runs.
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

--- Schedules a redraw of a session.
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

-- -- permission requests -----------------------------------------------------------------------------------------

--- All open permission requests of all sessions, in order.
---@return deputy.PermissionRequest[]
function M.requests()
  local all = {}
  for _, session in pairs(M.sessions) do
    if not session.stale then
      vim.list_extend(all, session.state.requests)
    end
  end
  table.sort(all, function(a, b)
    return a.requestId < b.requestId
  end)
  return all
end

---@param request_id string
---@return deputy.PermissionRequest?
function M.request(request_id)
  return vim.iter(M.requests()):find(function(request)
    return request.requestId == request_id
  end)
end

--- An open question of an agent or an MCP server.
---@param request_id string
---@return deputy.InputRequest?
function M.input(request_id)
  for _, session in pairs(M.sessions) do
    for _, request in ipairs(session.stale and {} or session.state.inputs) do
      if request.requestId == request_id then
        return request
      end
    end
  end
end

local function notice()
  local waiting = M.requests()
  if #waiting == 0 then
    noticed = false
  elseif not noticed then
    noticed = true
    if require('deputy.config').options.notify then
      -- A text longer than the message line would wait for a key.
      vim.notify(
        text.cut('Deputy needs approval: ' .. text.one_line(waiting[1].title), math.max(1, vim.v.echospace - 1))
      )
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

--- Reports an approved call that failed, for example because the file has changed.
local function report_failure(session, event)
  if not session.approved[event.toolCallId] or event.status == 'in_progress' then
    return
  end
  session.approved[event.toolCallId] = nil
  if event.status == 'failed' then
    local message = 'Deputy: the approved call failed: ' .. text.one_line(event.content or '')
    vim.notify(text.cut(message, math.max(1, vim.v.echospace - 1)), vim.log.levels.WARN)
  end
end

local function fold(session, event)
  reducer.apply(session.state, event)
  if session.state.gap then
    session.state.gap = false
    M.load(session.id)
  end
  if event.type == 'permission_requested' then
    emit('DeputyApproval', event)
    notice()
  elseif event.type == 'permission_resolved' then
    release(event.requestId)
    emit('DeputySettled', event)
    notice()
  elseif event.type == 'input_requested' then
    emit('DeputyApproval', event)
    if require('deputy.config').options.notify then
      vim.notify(text.cut('Deputy asks: ' .. text.one_line(event.title), math.max(1, vim.v.echospace - 1)))
    end
  elseif event.type == 'input_resolved' then
    release(event.requestId)
    emit('DeputySettled', event)
  elseif event.type == 'agent_started' or event.type == 'agent_finished' or event.type == 'turn_finished' then
    emit('DeputyAgents', event)
  elseif event.type == 'session_rewound' and event.conversation then
    -- What is hidden now is only known to the server.
    M.load(session.id)
  elseif event.type == 'tool_call_update' then
    report_failure(session, event)
  elseif event.type == 'session_changed' then
    session.describing = session.describing
      or vim.defer_fn(function()
        session.describing = nil
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
  emit('DeputyEvent', event)
end

client.on_request = function(request, done)
  release(request.requestId) -- it is asked again because its session was loaded again
  releases[request.requestId] = done
end

client.on_notice = function(notice_text)
  if not vim.list_contains(M.notices, notice_text) then
    table.insert(M.notices, notice_text)
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
  -- If the server is missing, the client has already reported it.
  if error.code ~= client.NO_SERVER and error.code ~= client.LOST then
    vim.notify(('Deputy: %s: %s'):format(what, text.one_line(error.message)), vim.log.levels.ERROR)
  end
end

--- Opens a session and makes it the current one.
---@param callback fun(session: deputy.Session)
function M.new(callback)
  client.request('deputy/session/new', { cwd = vim.uri_from_fname(client.root()) }, function(opened, error)
    if error then
      failed('cannot open a session', error)
      return
    end
    local session = put(opened.sessionId)
    session.cwd = client.root()
    -- Its first events may have arrived before it was registered here.
    M.load(session.id, callback)
  end, true)
end

local function describe(session, info)
  session.title, session.model, session.effort = info.title, info.model, info.effort
  -- A list omits a mode that comes from the settings.
  session.mode = info.permissionMode or session.mode
end

--- Updates title, model and mode of a session from the list.
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

local function request_transcript(session, agent_id, before)
  local params = { sessionId = session.id, agentId = agent_id, before = before, limit = M.PAGE }
  client.request('deputy/agent/transcript', params, function(answer)
    if answer then
      reducer.put_transcript(session.state, agent_id, answer.entries, answer.earlier)
      M.changed(session)
    end
  end)
end

--- Requests the entries of a transcript before those that are loaded.
---@param session deputy.Session
---@param agent_id string
function M.need_earlier(session, agent_id)
  local first = (session.state.transcripts[agent_id] or {})[1]
  if first and session.state.earlier[agent_id] then
    request_transcript(session, agent_id, first.seq)
  end
end

--- Requests the transcript of a sub-agent, which a loaded session does not include.
---@param session deputy.Session
---@param agent_id string
function M.need_transcript(session, agent_id)
  session.requested = session.requested or {}
  if session.requested[agent_id] or not session.partial then
    return
  end
  session.requested[agent_id] = true
  request_transcript(session, agent_id, session.state.lastSeq + 1)
end

--- Loads or reloads a session and makes it the current one.
---@param id string
---@param callback fun(session: deputy.Session)?
function M.load(id, callback)
  local session = put(id)
  session.loading = true
  client.request('deputy/session/load', { sessionId = id, transcriptLimit = M.PAGE }, function(loaded, error)
    session.loading = false
    if error then
      session.stale = true
      failed('cannot load the session', error)
      return
    end
    session.state = reducer.loaded(loaded)
    describe(session, loaded.session)
    session.stale = false
    session.partial, session.requested = true, {}
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

--- Removes a deleted session.
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

--- Calls back with the current session, reloaded after a restart, or with a new one.
---@param callback fun(session: deputy.Session)
---@param without fun()? called if no session is available
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

--- Sends a prompt to the current session; during a turn it is queued.
---@param prompt table[] blocks
---@param rejected fun()? called if the prompt was not accepted
function M.prompt(prompt, rejected)
  M.with(function(session)
    local params = { sessionId = session.id, prompt = prompt, queue = true }
    client.request('deputy/session/prompt', params, function(done, error)
      if done and (done.rewoundPrompt or done.forkedSessionId) then
        require('deputy.rewind').command_done(done)
      end
      -- A failed turn is shown by its final event. A prompt whose server ended was accepted: its session contains it.
      if not error or error.code == MODEL_FAILURE or error.code == client.LOST then
        return
      end
      if error.code ~= client.NO_SERVER then
        vim.notify('Deputy: ' .. text.one_line(error.message), vim.log.levels.ERROR)
      end
      if rejected then
        rejected()
      end
    end, true)
  end, rejected)
end

return M
