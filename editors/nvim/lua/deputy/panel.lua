--- The content of the session's windows: one transcript of the session, and its folds. A sub-agent's transcript
--- replaces the session's; it is marked as read-only and has no input area.

local client = require('deputy.client')
local config = require('deputy.config')
local draw = require('deputy.draw')
local input = require('deputy.input')
local items = require('deputy.item')
local panes = require('deputy.pane')
local sessions = require('deputy.session')
local text = require('deputy.text')
local window = require('deputy.window')
local labels = require('deputy.labels')

-- Shows approvals and changes at the code from now on.
require('deputy.inline')
require('deputy.marks')

local M = {}

---@class deputy.Shown content of the window
---@field session string
---@field agent string? id of a sub-agent
local shown = nil ---@type deputy.Shown?
local unfolded = {} ---@type table<string, boolean> ids of agents, calls and requests
local unfolded_once = {} ---@type table<string, boolean> ids of requests that have unfolded their agent

--- The session and the agent whose transcript the window shows.
---@return deputy.Session?, deputy.AgentNode?
function M.subject()
  local session = shown and sessions.sessions[shown.session]
  if not session then
    return nil, nil
  end
  return session, session.state.agents[shown.agent or session.state.primary or '']
end

--- Drawing options for lines of `width` cells.
---@param width integer
---@return deputy.Look
function M.look(width)
  return { open = unfolded, now = vim.fn.localtime(), keys = config.keys('session'), width = width }
end

-- -- bars and notices --------------------------------------------------------------------------------------------

--- The counts and, if there is room, the key that sends and its effect.
local function input_bar(session, width)
  local typing = vim.api.nvim_get_current_win() == window.input() and vim.fn.mode() == 'i'
  local status = labels.status_line(session.state, width - 2)
  local send = config.keys('input')[typing and 'send_insert' or 'send']
  local hint = send and ('%s %s '):format(text.key(send), session.state.turn and 'queues' or 'sends') or ''
  local room = width - text.width(status) - #hint - 3
  return text.bar(status) .. (room > 0 and '%=' .. text.bar(hint) or '')
end

local function banner(session, node)
  if not node or not node.parentAgentId then
    local parts = { 'Deputy', session.title and session.title ~= '' and text.one_line(session.title) or 'new session' }
    local effort = session.effort or node and node.effort
    local model = session.model or node and node.model
    table.insert(parts, model and labels.model_of({ model = model, effort = effort }))
    if session.mode and session.mode ~= 'default' then
      table.insert(parts, 'mode ' .. session.mode)
    end
    for _, figure in ipairs({ labels.gauge(session.state), labels.cost(session.state) }) do
      table.insert(parts, figure ~= '' and figure or nil)
    end
    if session.stale then
      table.insert(parts, 'the server has ended')
    end
    return table.concat(parts, ' · ')
  end
  local parent = session.state.agents[node.parentAgentId]
  local whose = parent and parent.parentAgentId and ('[%s]'):format(text.one_line(parent.label)) or 'session'
  local state = labels.word_of(session.state, node)
  return ('read-only: transcript of [%s] · parent: %s · %s'):format(text.one_line(node.label), whose, state)
end

--- Lines above a transcript: messages of the server, and how to start.
local function opening(drawn, keys)
  local above = vim.tbl_map(draw.notice, shown.agent and {} or sessions.notices)
  if #drawn == 0 and not shown.agent then
    local send, typing = config.keys('input').send, config.keys('input').send_insert
    local how = send and (', `%s` sends'):format(text.key(send)) or ''
    how = how .. (typing and (', `%s` while you type'):format(text.key(typing)) or '')
    local help = keys.help and (', `%s` in this window shows the keys'):format(text.key(keys.help)) or ''
    table.insert(above, items.plain({ ('Write a prompt below%s%s.'):format(how, help) }))
  elseif #drawn == 0 then
    table.insert(above, items.plain({ 'Nothing yet.' }))
  end
  return vim.list_extend(above, drawn)
end

-- -- transcript --------------------------------------------------------------------------------------------------

local SESSION_HINTS = { { 'help', 'keys' }, { 'toggle', 'unfold' }, { 'agents', 'agents' }, { 'inbox', 'approvals' } }
local CHILD_HINTS = { { 'parent', 'back' }, { 'next_thread', 'next' }, { 'steer', 'steer' }, { 'stop', 'stop' } }

local SESSION_KEYS = vim.tbl_keys(config.defaults.keys.session)

local function pane_of(session, agent_id)
  local pane, fresh = panes.open(('session/%s/%s'):format(session.id, agent_id), 'deputy')
  if fresh then
    require('deputy.keys').map(pane, SESSION_KEYS, M.subject)
  end
  return pane
end

--- Unfolds the agent of a new request once; the user may fold it again.
local function unfold_for_requests(session)
  for _, request in ipairs(vim.list_extend(vim.list_slice(session.state.requests), session.state.inputs)) do
    local id = request.agent.agentId
    unfolded[id] = unfolded[id] or not unfolded_once[request.requestId] or nil
    unfolded_once[request.requestId] = true
  end
  for id in pairs(unfolded) do
    if session.state.agents[id] then
      sessions.need_transcript(session, id)
    end
  end
end

--- Draws the transcript in the window.
function M.redraw()
  local session, node = M.subject()
  local win = window.transcript()
  if not session or not win then
    return
  end
  unfold_for_requests(session)
  local pane = pane_of(session, shown.agent or 'primary')
  local hints = draw.hints(shown.agent and CHILD_HINTS or SESSION_HINTS, config.keys('session'))
  window.show_transcript(pane.buf, hints)
  local look = M.look(window.width(win))
  pane:show(opening(node and draw.transcript(session.state, node.agentId, look) or {}, look.keys))
  vim.wo[win].winbar = text.bar(text.cut(banner(session, node), vim.api.nvim_win_get_width(win) - 1))
  local below = window.input()
  if below then
    vim.wo[below].winbar = input_bar(session, vim.api.nvim_win_get_width(below))
  end
end

--- Unfolds or folds an agent, a call or a request.
---@param id string
function M.toggle(id)
  unfolded[id] = not unfolded[id] or nil
  for _, session in pairs(sessions.sessions) do
    sessions.changed(session)
  end
  M.redraw()
end

--- Moves the cursor to the end of the session's transcript, so that it follows new lines.
function M.to_end()
  local win = window.transcript()
  if win and shown and not shown.agent then
    vim.api.nvim_win_set_cursor(win, { vim.api.nvim_buf_line_count(vim.api.nvim_win_get_buf(win)), 0 })
  end
end

-- -- opening and closing -----------------------------------------------------------------------------------------

--- Shows a line of text if there is no session to show.
local function show_text(line)
  local pane, fresh = panes.open('starting', 'deputy')
  if fresh then
    require('deputy.keys').map(pane, { 'help', 'close', 'input' }, M.subject)
  end
  pane:show({ items.plain({ line }) })
  window.show_transcript(pane.buf, draw.hints(SESSION_HINTS, config.keys('session')))
end

local function ensure()
  if not window.transcript() then
    show_text('Starting …')
  end
end

--- Shows a transcript: the session's, or that of one of its agents.
---@param session deputy.Session
---@param agent_id string?
function M.show(session, agent_id)
  shown = { session = session.id, agent = agent_id ~= session.state.primary and agent_id or nil }
  if agent_id then
    sessions.need_transcript(session, agent_id)
  end
  ensure()
  if shown.agent then
    window.hide_input()
  else
    window.show_input(input.buffer())
  end
  M.redraw()
end

--- Opens the windows immediately, and shows the session when it is available.
---@param callback fun(session: deputy.Session)?
function M.begin(callback)
  ensure()
  window.show_input(input.buffer())
  sessions.with(function(session)
    if window.transcript() and not (shown and shown.session == session.id and not shown.agent) then
      M.show(session)
    end
    if callback then
      callback(session)
    end
  end)
end

--- Moves the focus to the transcript.
function M.focus()
  vim.api.nvim_set_current_win(window.transcript() or 0)
end

--- Opens the session's windows, ready to type a prompt.
function M.open()
  M.begin()
  vim.api.nvim_set_current_win(window.input())
  vim.cmd('startinsert!')
end

--- Moves the focus to the input area, if the transcript has one.
function M.to_input()
  if shown and shown.agent then
    vim.notify('Deputy: this transcript is read-only; `:DeputySteer` sends its agent a message.')
    return
  end
  M.open()
end

function M.close()
  window.close()
end

---@return boolean
function M.is_open()
  return window.transcript() ~= nil
end

sessions.watch(function(session)
  if not shown or shown.session ~= session.id then
    return
  elseif M.subject() then
    M.redraw()
  else
    shown = nil
    if window.transcript() then
      show_text('This session has been deleted. A prompt starts a new one.')
      window.show_input(input.buffer())
    end
  end
end)

require('deputy.install').on_step = function(line)
  if window.transcript() and not M.subject() then
    show_text('Deputy is ' .. line)
  end
end

client.on_failure = function(why)
  input.give_back()
  if window.transcript() and not M.subject() then
    show_text('No session: ' .. why)
  end
end

-- Right-aligned and cut text depend on the width.
vim.api.nvim_create_autocmd('WinResized', {
  group = vim.api.nvim_create_augroup('deputy.panel', {}),
  callback = function()
    if vim.list_contains(vim.v.event.windows, window.transcript()) then
      M.redraw()
    end
  end,
})

return M
