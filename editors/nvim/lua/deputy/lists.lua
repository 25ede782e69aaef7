--- The list of approvals and the list of agents, each in a window at the bottom of the screen.

local box = require('deputy.box')
local config = require('deputy.config')
local draw = require('deputy.draw')
local items = require('deputy.item')
local keys = require('deputy.keys')
local panel = require('deputy.panel')
local panes = require('deputy.pane')
local reducer = require('deputy.reducer')
local sessions = require('deputy.session')
local window = require('deputy.window')

local M = {}

local SHARE = 0.3
local LEAST = 8
--- Lines of a screen on which a list has a tab page of its own.
local LOW = 20

local OPTIONS =
  { number = false, relativenumber = false, signcolumn = 'no', wrap = false, cursorline = true, winfixheight = true }

local function open_window(pane, list)
  local win = vim.fn.bufwinid(pane.buf)
  if win == -1 then
    vim.cmd(vim.o.lines < LOW and 'tab split' or 'botright split')
    win = vim.api.nvim_get_current_win()
    vim.wo[win].winfixbuf = false
    vim.api.nvim_win_set_buf(win, pane.buf)
    vim.api.nvim_win_set_height(win, math.max(LEAST, math.floor(SHARE * vim.o.lines)))
    for name, value in pairs(vim.tbl_extend('error', OPTIONS, { statuscolumn = ' ', fillchars = 'eob: ' })) do
      vim.wo[win][0][name] = value
    end
  end
  vim.wo[win][0].winbar = ' ' .. list.title
  vim.wo[win][0].statusline = draw.hints(list.hints, config.keys('session'))
  window.fit()
  vim.api.nvim_set_current_win(win)
end

local function close()
  vim.api.nvim_win_close(0, true)
  window.fit()
end

---@class deputy.List
---@field title string
---@field empty string text of an empty list
---@field actions string[]
---@field hints { [1]: string, [2]: string }[] hints in its status line
---@field draw fun(look: deputy.Look): deputy.Item[]

---@type table<string, deputy.List>
local LISTS = {
  inbox = {
    title = 'Deputy · approvals',
    empty = 'No open approvals.',
    actions = vim.list_extend(
      { 'open', 'toggle', 'next_question', 'prev_question', 'stop', 'steer', 'agents', 'help', 'close' },
      vim.list_extend(
        { 'approve', 'approve_always', 'approve_project', 'approve_user', 'approve_agent', 'approve_edits' },
        { 'deny', 'deny_reason', 'deny_always', 'edit', 'go_to_code' }
      )
    ),
    hints = { { 'approve', 'approve' }, { 'deny', 'deny' }, { 'open', 'go to the code' }, { 'close', 'close' } },
    draw = function(look)
      local drawn = vim.tbl_map(function(request)
        local state = sessions.sessions[request.sessionId].state
        return box.draw(request, 0, look, #reducer.requests_of(state, request.agent.agentId))
      end, sessions.requests())
      for _, session in pairs(sessions.sessions) do
        for _, request in ipairs(session.stale and {} or session.state.inputs) do
          table.insert(drawn, require('deputy.question').draw(request, 0, look))
        end
      end
      return drawn
    end,
  },
  agents = {
    title = 'Deputy · agents',
    empty = 'No agents yet.',
    actions = { 'open', 'stop', 'steer', 'revert', 'inbox', 'help', 'close' },
    hints = {
      { 'open', 'open' },
      { 'stop', 'stop' },
      { 'steer', 'steer' },
      { 'revert', 'revert' },
      { 'close', 'close' },
    },
    draw = function(look)
      local session = sessions.get()
      return session and draw.tree(session.state, look) or {}
    end,
  },
}

local function show(list, pane)
  local win = vim.fn.bufwinid(pane.buf)
  local drawn = list.draw(panel.look(win == -1 and vim.o.columns or window.width(win)))
  pane:show(#drawn > 0 and drawn or { items.plain({ list.empty }) })
end

local function open(name)
  local list, pane, fresh = LISTS[name], panes.open(name, 'deputy_list')
  if fresh then
    keys.map(pane, list.actions, sessions.get, { close = close })
  end
  open_window(pane, list)
  show(list, pane)
  vim.api.nvim_win_set_cursor(0, { 1, 0 })
end

--- Opens the inbox: all open approvals, answered with the keys of the session window.
function M.inbox()
  open('inbox')
end

--- Opens the tree of the session's agents.
function M.agents()
  open('agents')
end

sessions.watch(function()
  for name, list in pairs(LISTS) do
    local pane = panes.panes[name]
    if pane and vim.api.nvim_buf_is_valid(pane.buf) and vim.fn.bufwinid(pane.buf) ~= -1 then
      show(list, pane)
    end
  end
end)

return M
