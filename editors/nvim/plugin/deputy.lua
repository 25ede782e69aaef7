if vim.g.loaded_deputy then
  return
end
vim.g.loaded_deputy = true
if vim.fn.has('nvim-0.11') ~= 1 then
  vim.notify('Deputy needs Neovim 0.11 or newer.', vim.log.levels.ERROR)
  return
end

-- Modules are loaded when they are first used, so that startup takes less than a millisecond.

for group, link in pairs({
  DeputyUser = 'Title',
  DeputyAssistant = 'Identifier',
  DeputyHeading = 'Title',
  DeputyDim = 'Comment',
  DeputyRunning = 'DiagnosticInfo',
  DeputyDone = 'DiagnosticOk',
  DeputyFailed = 'DiagnosticError',
  DeputyCancelled = 'DiagnosticWarn',
  DeputyApproval = 'DiagnosticWarn',
  DeputyKeys = 'Special',
  DeputyCommand = 'String',
  DeputyAdd = 'DiffAdd',
  DeputyDelete = 'DiffDelete',
  DeputyHunk = 'Comment',
  DeputyAddSign = 'Added',
  DeputyChangeSign = 'Changed',
  DeputyDeleteSign = 'Removed',
}) do
  vim.api.nvim_set_hl(0, group, { link = link, default = true })
end

vim.api.nvim_set_hl(0, 'DeputyLabel', { bold = true, default = true })

local function command(name, about, options, run)
  vim.api.nvim_create_user_command(name, run, vim.tbl_extend('error', { desc = 'Deputy: ' .. about }, options))
end

local function simple(name, about, call)
  command(name, about, {}, function()
    require('deputy')[call]()
  end)
end

--- The lines of a range in the format of the protocol.
local function range(given)
  local uri = vim.uri_from_bufnr(0)
  return {
    uri = uri,
    range = { start = { line = given.line1 - 1, character = 0 }, ['end'] = { line = given.line2, character = 0 } },
  }
end

command('Deputy', 'open the session, or send it a prompt', { nargs = '*', range = true }, function(given)
  local about = given.range > 0 and vim.bo.buftype == '' and range(given) or nil
  require('deputy').open(given.args, about)
end)

simple('DeputyNew', 'open a new session', 'new')
simple('DeputyAgents', 'show the tree of agents', 'agents')
simple('DeputyInbox', 'show open approvals', 'inbox')
simple('DeputyPermissions', 'list and remove permission rules', 'permissions')
simple('DeputyReview', 'list the changes to review, with diffs', 'review')
simple('DeputyRewind', 'go back to before a prompt', 'rewind')
simple('DeputyFork', 'continue in a new session from a checkpoint', 'fork')
simple('DeputyStop', 'stop all agents', 'stop')
simple('DeputyContinue', 'resume an interrupted turn', 'continue')
simple('DeputyContext', 'show what fills the context window', 'context')
simple('DeputyRestart', 'restart the server', 'restart')
simple('DeputyUninstall', 'remove the installed server', 'uninstall')
simple('DeputyLog', 'open the log', 'log')

command('DeputyCompact', 'make room in the context window', { nargs = '*' }, function(given)
  require('deputy').compact(given.args)
end)

command('DeputyInstall', 'install or repair the server', { bang = true }, function(given)
  require('deputy').install(given.bang)
end)

command('DeputySessions', 'list the sessions of the project', { bang = true }, function(given)
  require('deputy').sessions(given.bang)
end)

local function running(node)
  return node.status == 'running' or node.status == 'pending'
end

local function any()
  return true
end

for name, row in pairs({
  DeputyCancel = { 'cancel', 'stop an agent', running },
  DeputySteer = { 'steer', 'send a message to a running agent', running },
  DeputyRevert = { 'revert', 'revert the edits of an agent', any },
  DeputyThread = { 'thread', "open an agent's transcript", any },
}) do
  local call, about, holds = unpack(row)
  command(name, about, {
    nargs = '+',
    complete = function(_, line)
      local lead = line:match('^%s*%S+%s+(.*)$') or ''
      local first = lead:match('^(.*)%s') or ''
      -- Completion replaces only the last word, but labels can have several.
      return vim.tbl_map(function(found)
        return first ~= '' and found:sub(#first + 2) or found
      end, require('deputy').complete(lead, holds))
    end,
  }, function(given)
    require('deputy')[call](given.args)
  end)
end

command('DeputyMode', 'set the permission mode', {
  nargs = '?',
  complete = function(lead)
    return require('deputy').modes(lead)
  end,
}, function(given)
  require('deputy').mode(given.args)
end)
for name, row in pairs({
  DeputyModel = { 'model', 'set the model', 'complete' },
  DeputyEffort = { 'effort', 'set the effort', 'efforts' },
  DeputyThinking = { 'thinking', 'set when the model thinks', 'thinking_modes' },
}) do
  local call, about, complete = unpack(row)
  command(name, about, {
    nargs = '?',
    complete = function(lead)
      return require('deputy.models')[complete](lead)
    end,
  }, function(given)
    require('deputy.models')[call](given.args)
  end)
end

local function plug(name, run)
  vim.keymap.set('n', ('<Plug>(deputy-%s)'):format(name), run, { desc = 'Deputy: ' .. name })
end

for name, call in pairs({
  toggle = 'toggle',
  new = 'new',
  inbox = 'inbox',
  agents = 'agents',
  stop = 'stop',
  sessions = 'sessions',
  permissions = 'permissions',
  ['next-mode'] = 'next_mode',
  review = 'review',
  rewind = 'rewind',
  fork = 'fork',
}) do
  plug(name, function()
    require('deputy')[call]()
  end)
end

for _, action in ipairs({
  'approve',
  'approve_always',
  'approve_project',
  'approve_user',
  'approve_agent',
  'approve_edits',
  'deny',
  'deny_reason',
  'deny_always',
  'edit',
  'next_question',
  'prev_question',
}) do
  plug((action:gsub('_', '-')), function()
    require('deputy').inline(action)
  end)
end

for _, action in ipairs({
  'next_change',
  'prev_change',
  'keep',
  'undo',
  'keep_file',
  'undo_file',
  'keep_all',
  'undo_all',
  'blame',
}) do
  plug((action:gsub('_', '-')), function()
    require('deputy').change(action)
  end)
end
