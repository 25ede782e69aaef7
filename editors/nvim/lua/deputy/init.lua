--- Deputy in Neovim: a coding agent and its sub-agents. `:h deputy` is the manual.

local M = {}

--- Takes options over the defaults; calling it is not necessary. Starts nothing.
---@param options table?
function M.setup(options)
  require('deputy.config').set(options)
end

--- Opens the session window, or says `words` to the session, about a place where one is given.
---@param words string?
---@param place { uri: string, range: lsp.Range? }?
function M.open(words, place)
  local panel = require('deputy.panel')
  if words and vim.trim(words) ~= '' then
    require('deputy.input').prompt(words, place)
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

--- Opens the list of questions that wait for an answer.
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

--- Answers the question that is nearest to the cursor in the current file, or goes to another one: `approve`,
--- `approve_always`, `approve_agent`, `deny`, `deny_reason`, `deny_always`, `edit`, `next_question`, `prev_question`.
---@param action string
function M.inline(action)
  require('deputy.inline').act(action)
end

--- Text for a status line: `Agents: 1 primary, 2 running, 1 finished`; empty while there is no session.
---@return string
function M.statusline()
  return require('deputy.statusline').get()
end

--- Goes on with a turn that the end of the server cut off.
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

--- What is done to the agent that a command's arguments name.
local function on_agent(act)
  return function(arguments)
    local session = require('deputy.session').get()
    local node, words = require('deputy.agents').find(arguments)
    if session and node then
      act(session, node.agentId, words)
    end
  end
end

M.cancel = on_agent(function(session, id)
  require('deputy.agents').stop(session, id)
end)
M.steer = on_agent(function(session, id, words)
  require('deputy.agents').steer(session, id, words)
end)
M.revert = on_agent(function(session, id)
  require('deputy.agents').revert(session, id)
end)
M.thread = on_agent(function(session, id)
  require('deputy.panel').show(session, id)
end)

-- -- the session -------------------------------------------------------------------------------------------------

--- Ends the server, starts it again and loads the session.
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

--- Names of permission modes, for completion.
---@param lead string
---@return string[]
function M.modes(lead)
  return vim.tbl_filter(function(mode)
    return vim.startswith(mode, lead)
  end, MODES)
end

--- The permission mode of the session; asks for it where none is given.
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
    vim.ui.select(MODES, { prompt = 'Permission mode' }, set)
  end)
end

--- The model of the session.
---@param model string
function M.model(model)
  require('deputy.session').with(function(session)
    require('deputy.client').request('deputy/session/setModel', { sessionId = session.id, model = model })
  end)
end

--- Lists sessions, to load, rename, archive or delete one.
---@param archived boolean? those that were put away too
function M.sessions(archived)
  require('deputy.library').pick(archived)
end

--- Opens the log of language servers, where Deputy's is.
function M.log()
  vim.cmd.tabedit(vim.fn.fnameescape(vim.lsp.log.get_filename()))
end

return M
