--- Deputy in Neovim: a coding agent and its sub-agents. `:h deputy` is the manual.

local M = {}

--- Merges options into the defaults; calling it is optional. Starts nothing.
---@param options table?
function M.setup(options)
  require('deputy.config').set(options)
end

--- Opens the session window, or sends `prompt` to the session, with a location if one is given.
---@param prompt string?
---@param place { uri: string, range: lsp.Range? }?
function M.open(prompt, place)
  local panel = require('deputy.panel')
  if prompt and vim.trim(prompt) ~= '' then
    require('deputy.input').prompt(prompt, place)
  else
    panel.open()
  end
end

--- Opens or closes the session window.
function M.toggle()
  local panel = require('deputy.panel')
  if panel.is_open() then
    panel.close()
  else
    panel.open()
  end
end

--- Opens a new session.
function M.new()
  require('deputy.session').new(function(session)
    require('deputy.panel').show(session)
    require('deputy.panel').open()
  end)
end

--- Opens the list of open approvals.
function M.inbox()
  require('deputy.lists').inbox()
end

--- Opens the tree of agents.
function M.agents()
  require('deputy.lists').agents()
end

--- Stops all agents of the session.
function M.stop()
  require('deputy.agents').stop_all()
end

--- Answers the approval nearest to the cursor in the current file, or goes to another one: `approve`,
--- `approve_always`, `approve_project`, `approve_user`, `approve_agent`, `deny`, `deny_reason`, `deny_always`, `edit`,
--- `next_question`, `prev_question`.
---@param action string
function M.inline(action)
  require('deputy.inline').act(action)
end

--- Lists the permission rules of the session, and removes them.
function M.permissions()
  local session = require('deputy.session').get()
  if session then
    require('deputy.rules').open(session.id)
  end
end

--- Reviews the changes of the current file, or goes to another one: `next_change`, `prev_change`, `keep`, `undo`,
--- `keep_file`, `undo_file`, `keep_all`, `undo_all`, `blame`.
---@param action string
function M.change(action)
  require('deputy.marks').act(action)
end

--- Lists all unreviewed changes in the quickfix list, and shows the first file as a diff.
function M.review()
  require('deputy.review').open()
end

--- Goes back to the checkpoint before a prompt, after asking which one and what goes back.
function M.rewind()
  require('deputy.rewind').rewind()
end

--- Continues in a new session from a checkpoint, after asking which one.
function M.fork()
  require('deputy.rewind').fork()
end

--- Text for a status line: `Agents: 1 primary, 2 running, 1 finished · context 42 % · $0.73`; empty while there is no session.
---@return string
function M.statusline()
  return require('deputy.statusline').get()
end

--- Shows what fills the context window.
function M.context()
  require('deputy.input').prompt('/context')
end

--- Makes room in the context window by a summary of the conversation.
---@param keep string? what the summary must keep
function M.compact(keep)
  require('deputy.input').prompt(vim.trim('/compact ' .. (keep or '')))
end

--- Resumes an interrupted turn.
function M.continue()
  require('deputy.agents').continue()
end

-- -- agents ------------------------------------------------------------------------------------------------------

--- Names of agents, for completion.
---@param lead string
---@param holds fun(node: deputy.AgentNode): boolean
---@return string[]
function M.complete(lead, holds)
  return require('deputy.agents').complete(lead, holds)
end

--- Runs an action on the agent named in a command's arguments.
local function on_agent(act)
  return function(arguments)
    local session = require('deputy.session').get()
    local node, rest = require('deputy.agents').find(arguments)
    if session and node then
      act(session, node.agentId, rest)
    end
  end
end

M.cancel = on_agent(function(session, id)
  require('deputy.agents').stop(session, id)
end)
M.steer = on_agent(function(session, id, message)
  require('deputy.agents').steer(session, id, message)
end)
M.revert = on_agent(function(session, id)
  require('deputy.agents').revert(session, id)
end)
M.thread = on_agent(function(session, id)
  require('deputy.panel').show(session, id)
end)

-- -- the session -------------------------------------------------------------------------------------------------

--- Restarts the server and loads the session.
function M.restart()
  local client, sessions = require('deputy.client'), require('deputy.session')
  client.stop(function()
    local session = sessions.get()
    if session then
      sessions.load(session.id)
    else
      client.with(function() end)
    end
  end)
end

local MODES = { 'plan', 'default', 'accept_edits', 'bypass' }
local ABOUT = {
  plan = 'read and plan, change nothing',
  default = 'ask first: before every change and command',
  accept_edits = 'review after: edits are made and listed; ask before commands',
  bypass = 'never ask; only deny rules apply',
}

--- Names of permission modes, for completion.
---@param lead string
---@return string[]
function M.modes(lead)
  return vim.tbl_filter(function(mode)
    return vim.startswith(mode, lead)
  end, MODES)
end

--- Goes to the next permission mode of the session: plan, default, accept_edits; never to bypass.
function M.next_mode()
  require('deputy.session').with(function(session)
    local now = session.mode or 'default'
    local next_of = { plan = 'default', default = 'accept_edits' }
    M.mode(next_of[now] or 'plan')
    vim.notify('Deputy: permission mode ' .. (next_of[now] or 'plan'))
  end)
end

--- Sets the permission mode of the session; asks for it if none is given.
---@param mode string?
function M.mode(mode)
  require('deputy.session').with(function(session)
    local function set(chosen)
      if chosen then
        local params = { sessionId = session.id, permissionMode = chosen }
        require('deputy.client').request('deputy/session/setPermissionMode', params)
      end
    end
    if mode and mode ~= '' then
      return set(mode)
    end
    vim.ui.select(MODES, {
      prompt = 'Permission mode',
      format_item = function(one)
        return ('%s: %s'):format(one, ABOUT[one])
      end,
    }, set)
  end)
end

--- Lists sessions, to load, rename, archive or delete one.
---@param archived boolean? include archived sessions
function M.sessions(archived)
  require('deputy.library').pick(archived)
end

--- Installs the server after a question; with `now` without one, waiting for its end.
---@param now boolean?
function M.install(now)
  require('deputy.install').command(now == true)
end

--- Removes the server that `install` has installed, after a question.
function M.uninstall()
  require('deputy.install').remove()
end

--- Opens the log of language servers, which includes Deputy's.
function M.log()
  vim.cmd.tabedit(vim.fn.fnameescape(vim.lsp.log.get_filename()))
end

return M
