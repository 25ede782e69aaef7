--- The list of questions and the list of agents, each a window at the bottom of the screen.

local client = require('deputy.client')
local config = require('deputy.config')
local draw = require('deputy.draw')
local panel = require('deputy.panel')
local panes = require('deputy.pane')
local question = require('deputy.question')
local sessions = require('deputy.session')

local M = {}

local HEIGHT = 12

local function window(pane, title)
  local win = vim.fn.bufwinid(pane.buf)
  if win == -1 then
    vim.cmd('botright split')
    win = vim.api.nvim_get_current_win()
    vim.wo[win].winfixbuf = false
    vim.api.nvim_win_set_buf(win, pane.buf)
    vim.api.nvim_win_set_height(win, HEIGHT)
    for name, value in pairs({
      number = false,
      relativenumber = false,
      signcolumn = 'no',
      wrap = false,
      cursorline = true,
    }) do
      vim.wo[win][0][name] = value
    end
  end
  vim.wo[win][0].winbar, vim.wo[win][0].statusline = ' ' .. title, ' Deputy'
  panel.fit()
  vim.api.nvim_set_current_win(win)
end

local function look()
  return { open = {}, now = vim.fn.localtime(), keys = config.keys('session'), width = vim.o.columns }
end

local function map(pane, keys)
  for action, run in pairs(keys) do
    local key = config.keys('session')[action]
    if key then
      vim.keymap.set('n', key, function()
        run(pane:under_cursor() or {})
      end, { buffer = pane.buf, nowait = true, desc = 'Deputy: ' .. action:gsub('_', ' ') })
    end
  end
end

local function close()
  vim.api.nvim_win_close(0, true)
  panel.fit()
end

-- -- questions ---------------------------------------------------------------------------------------------------

local function asking(answer)
  return function(about)
    local asked = about.request and sessions.question(about.request)
    if asked then
      answer(asked)
    end
  end
end

local function go_to(asked)
  if asked.preview and asked.preview.type == 'diff' then
    require('deputy.inline').go_to(asked)
  end
end

local function answering(kind)
  return asking(function(asked)
    question.answer(asked, kind)
  end)
end

local inbox_keys = {
  open = asking(go_to),
  go_to_code = asking(go_to),
  approve = answering('allow_once'),
  approve_always = answering('allow_always'),
  approve_agent = asking(question.approve_agent),
  deny = answering('reject_once'),
  deny_reason = asking(question.deny_with_reason),
  edit = asking(question.edit),
  close = close,
}

local function show_inbox(pane)
  local items = vim.tbl_map(function(asked)
    return draw.question(asked, 0, look())
  end, sessions.questions())
  pane:show(#items > 0 and items or { { lines = { 'No question waits for you.' }, marks = {} } })
end

--- Opens the inbox: all open questions, answered with the keys of the session window.
function M.inbox()
  local pane, fresh = panes.open('inbox', 'deputy')
  if fresh then
    map(pane, inbox_keys)
  end
  show_inbox(pane)
  window(pane, 'Deputy · questions that wait for you')
  vim.api.nvim_win_set_cursor(0, { 1, 0 })
end

-- -- agents ------------------------------------------------------------------------------------------------------

local function about_agent(run)
  return function(about)
    local session = sessions.get()
    if session and about.agent then
      run(session, about.agent)
    end
  end
end

local agents_keys = {
  open = about_agent(function(session, agent)
    panel.show(session, agent)
  end),
  stop = about_agent(function(session, agent)
    if agent == session.state.primary then
      client.request('deputy/session/cancel', { sessionId = session.id })
    else
      panel.cancel(session, agent)
    end
  end),
  steer = about_agent(panel.steer),
  revert = about_agent(panel.revert),
  inbox = function()
    M.inbox()
  end,
  close = close,
}

local function show_agents(pane)
  local session = sessions.get()
  local items = session and draw.tree(session.state, look()) or {}
  pane:show(#items > 0 and items or { { lines = { 'No agent has run yet.' }, marks = {} } })
end

--- Opens the tree of the session's agents.
function M.agents()
  local pane, fresh = panes.open('agents', 'deputy')
  if fresh then
    map(pane, agents_keys)
  end
  show_agents(pane)
  window(pane, 'Deputy · agents')
end

local function redraw(name, show)
  local pane = panes.panes and panes.panes[name]
  if pane and vim.api.nvim_buf_is_valid(pane.buf) and vim.fn.bufwinid(pane.buf) ~= -1 then
    show(pane)
  end
end

sessions.watch(function()
  redraw('inbox', show_inbox)
  redraw('agents', show_agents)
end)

return M
