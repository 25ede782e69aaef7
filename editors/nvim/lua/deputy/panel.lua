--- What the session's windows show: a thread of the session, and what is unfolded in it. A child's thread takes the
--- place of the session's, says so, and has no input.

local client = require('deputy.client')
local config = require('deputy.config')
local draw = require('deputy.draw')
local input = require('deputy.input')
local items = require('deputy.item')
local panes = require('deputy.pane')
local sessions = require('deputy.session')
local text = require('deputy.text')
local window = require('deputy.window')
local words = require('deputy.words')

-- Shows questions where the code is, from now on.
require('deputy.inline')

local M = {}

---@class deputy.Shown what the window shows
---@field session string
---@field agent string? a child
local shown = nil ---@type deputy.Shown?
local unfolded = {} ---@type table<string, boolean> agents, calls and questions
local unfolded_once = {} ---@type table<string, boolean> questions that have unfolded their agent

--- What the window shows: the session, and the agent whose thread it is.
---@return deputy.Session?, deputy.AgentNode?
function M.subject()
  local session = shown and sessions.sessions[shown.session]
  if not session then
    return nil, nil
  end
  return session, session.state.agents[shown.agent or session.state.primary or '']
end

--- How things are drawn in lines of `width` cells.
---@param width integer
---@return deputy.Look
function M.look(width)
  return { open = unfolded, now = vim.fn.localtime(), keys = config.keys('session'), width = width }
end

-- -- what stands around the thread -------------------------------------------------------------------------------

--- The counts, and beside them which key sends, and what sending does, where there is room for it.
local function input_bar(session, width)
  local typing = vim.api.nvim_get_current_win() == window.input() and vim.fn.mode() == 'i'
  local status = words.status_line(session.state, width - 2)
  local send = config.keys('input')[typing and 'send_insert' or 'send']
  local hint = send and ('%s %s '):format(text.key(send), session.state.turn and 'queues' or 'sends') or ''
  local room = width - text.width(status) - #hint - 3
  return text.bar(status) .. (room > 0 and '%=' .. text.bar(hint) or '')
end

local function banner(session, node)
  if not node or not node.parentAgentId then
    local parts = { 'Deputy', session.title and session.title ~= '' and text.one_line(session.title) or 'new session' }
    table.insert(parts, session.model or node and node.model)
    if session.mode and session.mode ~= 'default' then
      table.insert(parts, 'mode ' .. session.mode)
    end
    if session.stale then
      table.insert(parts, 'the server has ended')
    end
    return table.concat(parts, ' · ')
  end
  local parent = session.state.agents[node.parentAgentId]
  local whose = parent and parent.parentAgentId and ('[%s]'):format(text.one_line(parent.label)) or 'session'
  local state = words.word_of(session.state, node)
  return ('read-only: thread of [%s] · parent: %s · %s'):format(text.one_line(node.label), whose, state)
end

--- What stands above a thread: what the server told, and how to begin.
local function opening(drawn, keys)
  local above = vim.tbl_map(draw.notice, shown.agent and {} or sessions.notices)
  if #drawn == 0 and not shown.agent then
    local send, typing = config.keys('input').send, config.keys('input').send_insert
    local how = send and (', `%s` sends'):format(text.key(send)) or ''
    how = how .. (typing and (', `%s` while you type'):format(text.key(typing)) or '')
    local help = keys.help and (', `%s` in this window shows the keys'):format(text.key(keys.help)) or ''
    table.insert(above, items.plain({ ('Ask below%s%s.'):format(how, help) }))
  elseif #drawn == 0 then
    table.insert(above, items.plain({ 'Nothing yet.' }))
  end
  return vim.list_extend(above, drawn)
end

-- -- the thread --------------------------------------------------------------------------------------------------

local SESSION_HINTS = { { 'help', 'keys' }, { 'toggle', 'unfold' }, { 'agents', 'agents' }, { 'inbox', 'questions' } }
local CHILD_HINTS = { { 'parent', 'back' }, { 'next_thread', 'next' }, { 'steer', 'steer' }, { 'stop', 'stop' } }

local THREAD_KEYS = vim.tbl_keys(config.defaults.keys.session)

local function pane_of(session, agent_id)
  local pane, fresh = panes.open(('session/%s/%s'):format(session.id, agent_id), 'deputy')
  if fresh then
    require('deputy.keys').map(pane, THREAD_KEYS, M.subject)
  end
  return pane
end

--- A question unfolds its agent once; what the user folds then stays folded.
local function unfold_questions(session)
  for _, asked in ipairs(session.state.questions) do
    local id = asked.agent.agentId
    unfolded[id] = unfolded[id] or not unfolded_once[asked.requestId] or nil
    unfolded_once[asked.requestId] = true
  end
  for id in pairs(unfolded) do
    if session.state.agents[id] then
      sessions.need_transcript(session, id)
    end
  end
end

--- Draws the thread that the window shows.
function M.redraw()
  local session, node = M.subject()
  local win = window.thread()
  if not session or not win then
    return
  end
  unfold_questions(session)
  local pane = pane_of(session, shown.agent or 'primary')
  local hints = draw.hints(shown.agent and CHILD_HINTS or SESSION_HINTS, config.keys('session'))
  window.show_thread(pane.buf, hints)
  local look = M.look(window.width(win))
  pane:show(opening(node and draw.thread(session.state, node.agentId, look) or {}, look.keys))
  vim.wo[win].winbar = text.bar(text.cut(banner(session, node), vim.api.nvim_win_get_width(win) - 1))
  local below = window.input()
  if below then
    vim.wo[below].winbar = input_bar(session, vim.api.nvim_win_get_width(below))
  end
end

--- Unfolds or folds an agent, a call or a question.
---@param id string
function M.toggle(id)
  unfolded[id] = not unfolded[id] or nil
  for _, session in pairs(sessions.sessions) do
    sessions.changed(session)
  end
  M.redraw()
end

--- Puts the cursor of the session's thread to its end, which it then follows.
function M.to_end()
  local win = window.thread()
  if win and shown and not shown.agent then
    vim.api.nvim_win_set_cursor(win, { vim.api.nvim_buf_line_count(vim.api.nvim_win_get_buf(win)), 0 })
  end
end

-- -- opening and closing -----------------------------------------------------------------------------------------

--- Says something where no session can be shown.
local function say(line)
  local pane, fresh = panes.open('starting', 'deputy')
  if fresh then
    require('deputy.keys').map(pane, { 'help', 'close', 'input' }, M.subject)
  end
  pane:show({ items.plain({ line }) })
  window.show_thread(pane.buf, draw.hints(SESSION_HINTS, config.keys('session')))
end

local function ensure()
  if not window.thread() then
    say('Starting …')
  end
end

--- Shows a thread: the session's, or that of one of its agents.
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

--- Opens the windows at once, whatever the server does, and shows the session in them when there is one.
---@param callback fun(session: deputy.Session)?
function M.begin(callback)
  ensure()
  window.show_input(input.buffer())
  sessions.with(function(session)
    if window.thread() and not (shown and shown.session == session.id and not shown.agent) then
      M.show(session)
    end
    if callback then
      callback(session)
    end
  end)
end

--- Goes to the thread.
function M.focus()
  vim.api.nvim_set_current_win(window.thread() or 0)
end

--- Opens the session's windows with the cursor in the input area.
function M.open()
  M.begin()
  vim.api.nvim_set_current_win(window.input())
end

--- Goes to the input area of the session, where the thread that is shown has one.
function M.to_input()
  if shown and shown.agent then
    vim.notify('Deputy: this thread is read-only; `:DeputySteer` says something to its agent.')
    return
  end
  window.show_input(input.buffer())
  vim.api.nvim_set_current_win(window.input())
  vim.cmd('startinsert!')
end

function M.close()
  window.close()
end

---@return boolean
function M.is_open()
  return window.thread() ~= nil
end

sessions.watch(function(session)
  if not shown or shown.session ~= session.id then
    return
  elseif M.subject() then
    M.redraw()
  else
    shown = nil
    if window.thread() then
      say('This session has been deleted. A prompt begins a new one.')
      window.show_input(input.buffer())
    end
  end
end)

client.on_failure = function(why)
  if window.thread() and not M.subject() then
    say('No session: ' .. why)
  end
end

-- What stands at the right, and what is cut, follow the width.
vim.api.nvim_create_autocmd('WinResized', {
  group = vim.api.nvim_create_augroup('deputy.panel', {}),
  callback = function()
    if vim.list_contains(vim.v.event.windows, window.thread()) then
      M.redraw()
    end
  end,
})

return M
