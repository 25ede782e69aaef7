--- The session window: a thread above, the input area below. A child's thread takes the place of the session's,
--- says so, and has no input.

local client = require('deputy.client')
local config = require('deputy.config')
local draw = require('deputy.draw')
local panes = require('deputy.pane')
local question = require('deputy.question')
local reducer = require('deputy.reducer')
local sessions = require('deputy.session')
local text = require('deputy.text')

-- Shows questions where the code is, from now on.
require('deputy.inline')

local M = {}

---@class deputy.Shown what the window shows
---@field session string
---@field agent string?
local shown = nil ---@type deputy.Shown?
local opened = {} ---@type table<string, boolean> unfolded agents
local unfolded_once = {} ---@type table<string, boolean> agents whose question has unfolded them
local window, input_window ---@type integer?, integer?
local input_buffer ---@type integer?

local function alive(win)
  return win and vim.api.nvim_win_is_valid(win) and win or nil
end

---@return deputy.Session?, deputy.AgentNode?
local function subject()
  local session = shown and sessions.sessions[shown.session]
  if not session then
    return nil, nil
  end
  return session, session.state.agents[shown.agent or session.state.primary or '']
end

local function pane_of(session, agent_id)
  local pane, fresh = panes.open(('session/%s/%s'):format(session.id, agent_id), 'deputy')
  if fresh then
    M.map(pane)
  end
  return pane
end

local function plain(win)
  for name, value in pairs({
    number = false,
    relativenumber = false,
    signcolumn = 'no',
    foldcolumn = '0',
    foldenable = false,
    spell = false,
    list = false,
    wrap = true,
    linebreak = true,
    breakindent = true,
    winfixwidth = true,
    statusline = ' %{%&filetype == "deputy_input" ? "Deputy: prompt" : "Deputy"%}',
  }) do
    vim.wo[win][name] = value
  end
end

-- -- what it shows -----------------------------------------------------------------------------------------------

local function bar(words)
  return (' ' .. words):gsub('%%', '%%%%')
end

--- The counts, and beside them what sending does, where there is room for it.
local function input_bar(session)
  local status, send = draw.status_line(session.state), config.keys('input').send
  local hint = send and ('%s %s '):format(send, session.state.turn and 'queues' or 'sends') or ''
  local room = vim.api.nvim_win_get_width(input_window) - vim.fn.strdisplaywidth(status) - #hint - 3
  return bar(status) .. (room > 0 and '%=' .. bar(hint) or '')
end

local function banner(session, node)
  if not node or not node.parentAgentId then
    local name = session.title and session.title ~= '' and text.one_line(session.title) or 'new session'
    local model = session.model or node and node.model or ''
    return ('Deputy · %s · %s%s'):format(name, model, session.stale and ' · the server has ended' or '')
  end
  local parent = session.state.agents[node.parentAgentId]
  local whose = parent and parent.parentAgentId and ('[%s]'):format(text.one_line(parent.label)) or 'session'
  return ('read-only: thread of [%s] · %s · parent: %s'):format(
    text.one_line(node.label),
    draw.word_of(session.state, node),
    whose
  )
end

--- What stands above a thread: what the server told, and how to begin.
local function opening(items, keys)
  local above = vim.tbl_map(draw.notice, shown.agent and {} or sessions.notices)
  if #items == 0 then
    local send = config.keys('input').send
    local how = send and (', `%s` in Normal mode sends'):format(send) or ''
    local help = keys.help and (', `%s` in this window shows the keys'):format(keys.help) or ''
    table.insert(above, { lines = { ('Ask below%s%s.'):format(how, help) }, marks = {} })
  end
  return vim.list_extend(above, items)
end

--- Draws the thread that the window shows.
function M.redraw()
  local session, node = subject()
  local win = alive(window)
  if not session or not win then
    return
  end
  local keys = config.keys('session')
  for _, asked in ipairs(session.state.questions) do
    local id = asked.agent.agentId
    opened[id] = opened[id] or not unfolded_once[asked.requestId] or nil
    unfolded_once[asked.requestId] = true
  end
  for id in pairs(opened) do
    sessions.need_transcript(session, id)
  end
  local look = { open = opened, now = vim.fn.localtime(), keys = keys, width = vim.api.nvim_win_get_width(win) }
  local items = node and draw.thread(session.state, node.agentId, look) or {}
  local pane = pane_of(session, shown.agent or 'primary')
  pane:show(opening(items, keys))
  if vim.api.nvim_win_get_buf(win) ~= pane.buf then
    vim.wo[win].winfixbuf = false
    vim.api.nvim_win_set_buf(win, pane.buf)
    plain(win)
    vim.wo[win].winfixbuf = true
    vim.api.nvim_win_set_cursor(win, { vim.api.nvim_buf_line_count(pane.buf), 0 })
  end
  vim.wo[win].winbar = bar(text.cut(banner(session, node), vim.api.nvim_win_get_width(win) - 1))
  if alive(input_window) then
    vim.wo[input_window].winbar = input_bar(session)
  end
end

-- -- windows -----------------------------------------------------------------------------------------------------

--- Columns from which on the session stands beside the code.
local ROOM_FOR_TWO = 120

local function split()
  local position, size = config.options.window.position, config.options.window.size
  if position == 'auto' then
    position = vim.o.columns >= ROOM_FOR_TWO and 'right' or 'bottom'
  end
  if position == 'tab' then
    vim.cmd('tabnew')
  elseif position == 'bottom' then
    vim.cmd('botright split')
    vim.api.nvim_win_set_height(0, size < 1 and math.floor(vim.o.lines * size) or size)
  else
    vim.cmd(position == 'left' and 'topleft vsplit' or 'botright vsplit')
    vim.api.nvim_win_set_width(0, size < 1 and math.floor(vim.o.columns * size) or size)
  end
  return vim.api.nvim_get_current_win()
end

local function input()
  if input_buffer and vim.api.nvim_buf_is_valid(input_buffer) then
    return input_buffer
  end
  input_buffer = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_name(input_buffer, 'deputy://input')
  vim.bo[input_buffer].bufhidden, vim.bo[input_buffer].filetype = 'hide', 'deputy_input'
  vim.bo[input_buffer].omnifunc = "v:lua.require'deputy.complete'.omnifunc"
  local keys = config.keys('input')
  local function map(modes, key, action, about)
    if key then
      vim.keymap.set(modes, key, action, { buffer = input_buffer, desc = 'Deputy: ' .. about })
    end
  end
  map('n', keys.send, M.send, 'send')
  map({ 'n', 'i' }, keys.send_insert, M.send, 'send')
  map('n', keys.stop, M.stop_turn, 'stop all agents')
  map('n', config.keys('session').close, M.close, 'close')
  return input_buffer
end

--- Gives the input area its height back, which windows that open and close below it take.
function M.fit()
  if alive(input_window) then
    vim.api.nvim_win_set_height(input_window, config.options.window.input_height)
  end
end

local function show_input()
  if alive(input_window) then
    return
  end
  local from = vim.api.nvim_get_current_win()
  vim.api.nvim_set_current_win(window)
  vim.cmd('belowright split')
  input_window = vim.api.nvim_get_current_win()
  vim.wo[input_window].winfixbuf = false
  vim.api.nvim_win_set_buf(input_window, input())
  vim.api.nvim_win_set_height(input_window, config.options.window.input_height)
  plain(input_window)
  vim.wo[input_window].winfixheight = true
  vim.api.nvim_set_current_win(from)
end

local function hide_input()
  if alive(input_window) then
    vim.api.nvim_win_close(input_window, true)
  end
  input_window = nil
end

local function ensure_window()
  if alive(window) then
    return
  end
  local from = vim.api.nvim_get_current_win()
  window = split()
  local pane = panes.open('starting', 'deputy')
  pane:show({ { lines = { 'Starting …' }, marks = {} } })
  vim.api.nvim_win_set_buf(window, pane.buf)
  plain(window)
  vim.api.nvim_set_current_win(from)
end

--- Shows a thread: the session's, or that of one of its agents.
---@param session deputy.Session
---@param agent_id string?
function M.show(session, agent_id)
  shown = { session = session.id, agent = agent_id ~= session.state.primary and agent_id or nil }
  if agent_id then
    sessions.need_transcript(session, agent_id)
  end
  ensure_window()
  if shown.agent then
    hide_input()
  else
    show_input()
  end
  M.redraw()
end

--- Opens the session's window with the cursor in the input area.
function M.open()
  M.begin()
  vim.api.nvim_set_current_win(input_window)
end

--- Opens the window at once, whatever the server does, and shows the session in it when there is one.
---@param callback fun(session: deputy.Session)?
function M.begin(callback)
  ensure_window()
  show_input()
  sessions.with(function(session)
    if alive(window) and not (shown and shown.session == session.id and not shown.agent) then
      M.show(session)
    end
    if callback then
      callback(session)
    end
  end)
end

function M.close()
  hide_input()
  if alive(window) then
    pcall(vim.api.nvim_win_close, window, true)
  end
  window = nil
end

---@return boolean
function M.is_open()
  return alive(window) ~= nil
end

-- -- input -------------------------------------------------------------------------------------------------------

--- Sends what stands in the input area; during a turn it waits in the queue.
function M.send()
  local lines = vim.api.nvim_buf_get_lines(input(), 0, -1, false)
  local words = vim.trim(table.concat(lines, '\n'))
  if words == '' then
    return
  end
  vim.api.nvim_buf_set_lines(input(), 0, -1, false, {})
  M.prompt(words)
end

--- Says something to the current session, about a place where one is given, and shows the session.
---@param words string
---@param place { uri: string, range: lsp.Range? }?
function M.prompt(words, place)
  local blocks = { { type = 'text', text = words } }
  if place then
    table.insert(blocks, { type = 'resource_link', uri = place.uri, range = place.range })
  end
  M.begin(function(session)
    local pane = pane_of(session, 'primary')
    if alive(window) and vim.api.nvim_win_get_buf(window) == pane.buf then
      vim.api.nvim_win_set_cursor(window, { vim.api.nvim_buf_line_count(pane.buf), 0 })
    end
    sessions.prompt(blocks)
  end)
end

function M.stop_turn()
  local session = sessions.get()
  if session then
    client.request('deputy/session/cancel', { sessionId = session.id })
  end
end

-- -- keys --------------------------------------------------------------------------------------------------------

--- Goes to a place in a file, in a window that is not the plugin's.
---@param uri string
---@param line integer? from 1
function M.jump(uri, line)
  local target = vim.iter(vim.api.nvim_tabpage_list_wins(0)):find(function(win)
    return win ~= window and win ~= input_window and vim.bo[vim.api.nvim_win_get_buf(win)].buftype == ''
  end)
  if target then
    vim.api.nvim_set_current_win(target)
  else
    vim.cmd('topleft vsplit')
    vim.wo.winfixbuf = false
  end
  vim.cmd.edit(vim.fn.fnameescape(vim.uri_to_fname(uri)))
  if line then
    vim.api.nvim_win_set_cursor(0, { math.min(line, vim.api.nvim_buf_line_count(0)), 0 })
    vim.cmd('normal! zz')
  end
end

--- The place that a word like `src/a.py:12-30` under the cursor names.
local function place_under_cursor()
  local word = vim.fn.expand('<cWORD>'):gsub('^[`(%[\'"]+', ''):gsub('[`)%]\'",.;]+$', '')
  local path, line = word:match('^(.-):(%d+)[-%d]*$')
  path = path or word
  local full = vim.startswith(path, '/') and path or client.root() .. '/' .. path
  return path ~= '' and vim.uv.fs_stat(full) and vim.uri_from_fname(full) or nil, tonumber(line)
end

local function go_to(asked)
  require('deputy.inline').go_to(asked)
end

---@type table<string, fun(about: deputy.About, session: deputy.Session, asked: deputy.PermissionRequest?)>
local actions = {}

function actions.open(about, session, asked)
  local uri, line = place_under_cursor()
  local place = about.entry and about.entry.locations and about.entry.locations[1]
  if asked then
    go_to(asked)
  elseif about.entry then
    if place then
      M.jump(place.uri, place.range and place.range.start.line + 1)
    end
  elseif about.agent then
    M.show(session, about.agent)
  elseif uri then
    M.jump(uri, line)
  end
end

function actions.toggle(about)
  if about.agent then
    opened[about.agent] = not opened[about.agent] or nil
    M.redraw()
  end
end

local function asking(answer)
  return function(_, _, asked)
    if asked then
      answer(asked)
    else
      vim.notify('Deputy: no question here.')
    end
  end
end

actions.approve = asking(function(asked)
  question.answer(asked, 'allow_once')
end)
actions.approve_always = asking(function(asked)
  question.answer(asked, 'allow_always')
end)
actions.deny = asking(function(asked)
  question.answer(asked, 'reject_once')
end)
actions.approve_agent = asking(question.approve_agent)
actions.deny_reason = asking(question.deny_with_reason)
actions.edit = asking(question.edit)
actions.go_to_code = asking(go_to)

local function step_question(by)
  return function()
    local session = subject()
    local pane = session and pane_of(session, shown.agent or 'primary')
    local here = vim.api.nvim_win_get_cursor(0)[1]
    local rows = {}
    for index, item in ipairs(pane and pane.items or {}) do
      if item.about and item.about.request then
        table.insert(rows, pane.starts[index] + 1)
      end
    end
    local after = vim.tbl_filter(function(row)
      return by > 0 and row > here or by < 0 and row < here
    end, rows)
    local row = by > 0 and (after[1] or rows[1]) or after[#after] or rows[#rows]
    if row then
      vim.api.nvim_win_set_cursor(0, { row, 0 })
    end
  end
end

actions.next_question = step_question(1)
actions.prev_question = step_question(-1)

function actions.stop(about, session)
  if about.agent and about.agent ~= session.state.primary then
    M.cancel(session, about.agent)
  else
    M.stop_turn()
  end
end

function actions.steer(about, session)
  M.steer(session, about.agent or shown.agent or session.state.primary)
end

function actions.revert(about, session)
  local agent = about.agent or shown.agent
  if agent then
    M.revert(session, agent)
  end
end

function actions.parent(_, session)
  local _, node = subject()
  if node and node.parentAgentId then
    M.show(session, node.parentAgentId)
  end
end

local function step_thread(by)
  return function(_, session)
    local ids = vim.tbl_map(function(node)
      return node.agentId
    end, reducer.tree(session.state))
    local _, node = subject()
    for index, id in ipairs(ids) do
      if node and id == node.agentId then
        M.show(session, ids[(index - 1 + by) % #ids + 1])
        return
      end
    end
  end
end

actions.next_thread = step_thread(1)
actions.prev_thread = step_thread(-1)

function actions.input()
  if alive(input_window) then
    vim.api.nvim_set_current_win(input_window)
    vim.cmd('startinsert!')
  else
    vim.notify('Deputy: this thread is read-only; say something to its agent with `:DeputySteer`.')
  end
end

function actions.unqueue(about, session)
  if about.prompt then
    client.request('deputy/session/unqueue', { sessionId = session.id, promptId = about.prompt })
  end
end

function actions.agents()
  require('deputy.lists').agents()
end

function actions.inbox()
  require('deputy.lists').inbox()
end

function actions.close()
  M.close()
end

function actions.help()
  if not pcall(vim.cmd.help, 'deputy-keys') then
    -- Only plugin managers index the manuals of what they install.
    local manual = vim.api.nvim_get_runtime_file('doc/deputy.txt', false)[1]
    pcall(vim.cmd.helptags, vim.fs.dirname(manual))
    vim.cmd.help('deputy-keys')
  end
end

--- What each action is, for lists of keys.
local ABOUT = {
  open = 'open what is here',
  toggle = 'unfold or fold an agent',
  approve = 'approve',
  approve_always = 'approve for the session',
  approve_agent = 'approve all questions of this agent',
  deny = 'deny',
  deny_reason = 'deny with a reason',
  edit = 'edit the proposal first',
  go_to_code = 'go to the code of a question',
  next_question = 'next question',
  prev_question = 'previous question',
  stop = 'stop the agent',
  steer = 'say something to the agent',
  revert = 'take back the edits of the agent',
  parent = "the parent's thread",
  next_thread = 'next thread',
  prev_thread = 'previous thread',
  input = 'write a prompt',
  unqueue = 'take a waiting prompt back',
  agents = 'list of agents',
  inbox = 'list of questions',
  help = 'help',
  close = 'close',
}

---@param pane deputy.Pane
function M.map(pane)
  for action, run in pairs(actions) do
    local key = config.keys('session')[action]
    local function act()
      local session = subject()
      local about = pane:under_cursor() or {}
      if session then
        run(about, session, about.request and sessions.question(about.request))
      end
    end
    if key then
      vim.keymap.set('n', key, act, { buffer = pane.buf, nowait = true, desc = 'Deputy: ' .. ABOUT[action] })
    end
    local name = ('<Plug>(deputy-session-%s)'):format((action:gsub('_', '-')))
    vim.keymap.set('n', name, act, { buffer = pane.buf, desc = 'Deputy: ' .. ABOUT[action] })
  end
end

-- -- agents ------------------------------------------------------------------------------------------------------

---@param session deputy.Session
---@param agent_id string
function M.cancel(session, agent_id)
  client.request('deputy/agent/cancel', { sessionId = session.id, agentId = agent_id }, function(answer)
    if not answer.cancelled then
      vim.notify('Deputy: that agent had ended before.')
    end
  end)
end

--- Asks for words to a running agent.
---@param session deputy.Session
---@param agent_id string
---@param words string?
function M.steer(session, agent_id, words)
  local function say(said)
    if said and vim.trim(said) ~= '' then
      client.request('deputy/agent/message', { sessionId = session.id, agentId = agent_id, text = said })
    end
  end
  if words and words ~= '' then
    return say(words)
  end
  local node = session.state.agents[agent_id]
  vim.ui.input({ prompt = ('To [%s]: '):format(text.one_line(node and node.label)) }, say)
end

--- Takes the edits of an agent back, once the user has confirmed.
---@param session deputy.Session
---@param agent_id string
function M.revert(session, agent_id)
  local node = session.state.agents[agent_id]
  local ask = ('Take back all edits of [%s]?'):format(text.one_line(node and node.label))
  if vim.fn.confirm(ask, '&Take back\n&No', 2) ~= 1 then
    return
  end
  client.request('deputy/agent/revert', { sessionId = session.id, agentId = agent_id }, function(answer)
    local words = ('Deputy: took back edits in %s'):format(text.plural(#answer.reverted, 'file'))
    for _, conflict in ipairs(answer.conflicts) do
      words = ('%s\n%s is left alone: %s'):format(words, text.path(conflict.uri), text.one_line(conflict.reason))
    end
    vim.notify(words, #answer.conflicts > 0 and vim.log.levels.WARN or vim.log.levels.INFO)
    vim.cmd.checktime()
  end)
end

sessions.watch(function(session)
  if shown and shown.session == session.id then
    M.redraw()
  end
end)

return M
