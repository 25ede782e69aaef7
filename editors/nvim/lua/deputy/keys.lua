--- Actions of keys in the plugin's windows: on agents, approvals, calls and queued prompts.

local agents = require('deputy.agents')
local config = require('deputy.config')
local grace = require('deputy.grace')
local place = require('deputy.place')
local approval = require('deputy.approval')
local question = require('deputy.question')
local reducer = require('deputy.reducer')
local sessions = require('deputy.session')

local M = {}

---@class deputy.At position where a key was pressed
---@field session deputy.Session
---@field node deputy.AgentNode? agent whose transcript the window shows
---@field about deputy.About
---@field request deputy.PermissionRequest? open request on that line
---@field pane deputy.Pane

local function panel()
  return require('deputy.panel')
end

---@type table<string, fun(at: deputy.At)>
local actions = {}

-- -- navigation --------------------------------------------------------------------------------------------------

local function open_call(entry)
  local found = entry.locations and entry.locations[1]
  if found then
    place.jump(found.uri, found.range and found.range.start.line + 1)
  else
    panel().toggle(entry.toolCallId or entry.messageId)
  end
end

function actions.open(at)
  local uri, line = place.under_cursor()
  if at.request then
    require('deputy.inline').go_to(at.request)
  elseif at.about.earlier then
    sessions.need_earlier(at.session, at.about.earlier)
  elseif at.about.entry then
    open_call(at.about.entry)
  elseif at.about.agent then
    panel().show(at.session, at.about.agent)
    panel().focus()
  elseif uri then
    place.jump(uri, line)
  end
end

function actions.toggle(at)
  local about = at.about
  local id = about.request or about.entry and (about.entry.toolCallId or about.entry.messageId) or about.agent
  if id then
    panel().toggle(id)
  end
end

function actions.parent(at)
  if at.node and at.node.parentAgentId then
    panel().show(at.session, at.node.parentAgentId)
  end
end

local function step_transcript(by)
  return function(at)
    local ids = vim.tbl_map(function(node)
      return node.agentId
    end, reducer.tree(at.session.state))
    for index, id in ipairs(ids) do
      if at.node and id == at.node.agentId then
        panel().show(at.session, ids[(index - 1 + by) % #ids + 1])
        return
      end
    end
  end
end

actions.next_thread = step_transcript(1)
actions.prev_thread = step_transcript(-1)

local function step_approval(by)
  return function(at)
    local row = at.pane:step(vim.api.nvim_win_get_cursor(0)[1], by, function(about)
      return about.request ~= nil
    end)
    if row then
      vim.api.nvim_win_set_cursor(0, { row, 0 })
    else
      vim.notify('Deputy: there is no approval here.')
    end
  end
end

actions.next_question = step_approval(1)
actions.prev_question = step_approval(-1)

function actions.input()
  panel().to_input()
end

function actions.agents()
  require('deputy.lists').agents()
end

function actions.inbox()
  require('deputy.lists').inbox()
end

function actions.next_mode()
  require('deputy').next_mode()
end

function actions.close()
  panel().close()
end

function actions.help()
  if not pcall(vim.cmd.help, 'deputy-keys') then
    -- The help tags are missing without a plugin manager.
    local manual = vim.api.nvim_get_runtime_file('doc/deputy.txt', false)[1]
    pcall(vim.cmd.helptags, vim.fs.dirname(manual))
    vim.cmd.help('deputy-keys')
  end
end

-- -- answering ---------------------------------------------------------------------------------------------------

for name, answer in pairs(approval.ANSWERS) do
  actions[name] = function(at)
    local asked = at.about.request and sessions.input(at.about.request)
    local open = asked or at.request
    if open and not grace.over(at.pane:since(open.requestId)) then
      return
    elseif asked then
      return question.ANSWERS[name] and question.ANSWERS[name](asked)
    elseif at.request then
      answer(at.request)
    else
      vim.notify('Deputy: there is no approval here.')
    end
  end
end

function actions.go_to_code(at)
  if at.request then
    require('deputy.inline').go_to(at.request)
  end
end

-- -- agents ------------------------------------------------------------------------------------------------------

--- The agent of the line, otherwise that of the transcript.
local function agent_of(at)
  return at.about.agent or at.node and at.node.agentId
end

--- Stops the agent that the line names. On any other line, the user confirms what is stopped.
function actions.stop(at)
  local id = agent_of(at)
  if id and (at.about.agent and not at.about.entry or agents.confirm_stop(at.session, id)) then
    agents.stop(at.session, id)
  end
end

for _, name in ipairs({ 'steer', 'revert' }) do
  actions[name] = function(at)
    local id = agent_of(at)
    if id then
      agents[name](at.session, id)
    end
  end
end

function actions.unqueue(at)
  local prompt = vim.iter(at.session.state.promptQueue):find(function(waiting)
    return waiting.promptId == at.about.prompt
  end)
  if prompt then
    require('deputy.input').unqueue(at.session, { prompt })
  else
    vim.notify('Deputy: there is no queued prompt here.')
  end
end

function actions.continue()
  agents.continue()
end

-- -- maps --------------------------------------------------------------------------------------------------------

--- Descriptions of the actions, for lists of keys.
local ABOUT = {
  open = 'open the item under the cursor',
  toggle = 'unfold or fold the item under the cursor',
  approve = 'approve',
  approve_always = 'approve for the session',
  approve_project = 'approve for the project',
  approve_user = 'always approve',
  approve_edits = 'approve all edits of this agent in this turn',
  approve_agent = 'approve all requests of this agent',
  deny = 'deny',
  deny_reason = 'deny with a reason',
  deny_always = 'deny for the session',
  edit = 'edit the proposal first',
  go_to_code = 'go to the code of the approval',
  next_question = 'next approval',
  prev_question = 'previous approval',
  stop = 'stop the agent',
  steer = 'send the agent a message',
  revert = 'revert the edits of the agent',
  parent = "open the parent's transcript",
  next_thread = 'next transcript',
  prev_thread = 'previous transcript',
  input = 'write a prompt',
  unqueue = 'move a queued prompt into the input area',
  continue = 'resume an interrupted turn',
  agents = 'list of agents',
  inbox = 'list of approvals',
  next_mode = 'next permission mode',
  help = 'help',
  close = 'close',
}

--- Actions that work without a session.
local WITHOUT_SESSION = { help = true, close = true, input = true, inbox = true }

--- Maps actions in a pane, by the user's keys and by `<Plug>(deputy-session-…)`.
---@param pane deputy.Pane
---@param names string[] of actions
---@param subject fun(): deputy.Session?, deputy.AgentNode? session and agent that the pane shows
---@param own table<string, fun()>? actions that this pane overrides
function M.map(pane, names, subject, own)
  for _, name in ipairs(names) do
    local function act()
      if own and own[name] then
        return own[name]()
      end
      local about = pane:under_cursor() or {}
      local request = about.request and sessions.request(about.request)
      local session, node = subject()
      session = request and sessions.sessions[request.sessionId] or session
      if session or WITHOUT_SESSION[name] then
        actions[name]({ session = session, node = node, about = about, request = request, pane = pane })
      end
    end
    local how = { buffer = pane.buf, nowait = true, desc = 'Deputy: ' .. ABOUT[name] }
    vim.keymap.set('n', ('<Plug>(deputy-session-%s)'):format((name:gsub('_', '-'))), act, how)
    local key = config.keys('session')[name]
    if key then
      vim.keymap.set('n', key, act, how)
    end
  end
end

return M
