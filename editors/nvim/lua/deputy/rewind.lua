--- Going back to the checkpoint before a prompt, and continuing from one in a new session.

local client = require('deputy.client')
local sessions = require('deputy.session')
local text = require('deputy.text')

local M = {}

local WHAT = {
  { 'Files and conversation', { files = true, conversation = true } },
  { 'Files only', { files = true, conversation = false } },
  { 'Conversation only', { files = false, conversation = true } },
}

local function name_of(uri)
  return vim.fn.fnamemodify(vim.uri_to_fname(uri), ':.')
end

local function counts(one)
  return ('+%d −%d'):format(one.added, one.removed)
end

--- Asks for a checkpoint of the current session.
local function pick(prompt, callback)
  local session = sessions.get()
  if not session then
    vim.notify('Deputy: there is no session yet.')
    return
  end
  client.request('deputy/checkpoint/list', { sessionId = session.id }, function(listed)
    for _, note in ipairs(listed.notes or {}) do
      vim.notify('Deputy: ' .. text.one_line(note))
    end
    if #listed.checkpoints == 0 then
      vim.notify('Deputy: this session has no checkpoints yet.')
      return
    end
    vim.ui.select(listed.checkpoints, {
      prompt = prompt,
      kind = 'deputy_checkpoint',
      format_item = function(one)
        local ago = text.duration(os.time() - text.seconds(one.time)) .. ' ago'
        local what = one.files > 0 and (', then %s %s'):format(text.plural(one.files, 'file'), counts(one)) or ''
        return ('%s  (%s%s)'):format(text.one_line(one.title), ago, what)
      end,
    }, function(chosen)
      if chosen then
        callback(session, chosen)
      end
    end)
  end)
end

--- What happens to the files, in one line each.
local function effect(files)
  if #files == 0 then
    return 'No file has changed since.'
  end
  return table.concat(
    vim.tbl_map(function(file)
      local why = file.conflict and ('stays: %s'):format(text.one_line(file.conflict)) or counts(file)
      return ('%s %s'):format(name_of(file.uri), why)
    end, files),
    '\n'
  )
end

--- A prompt that was gone back over, as text for the input area.
local function text_of(blocks)
  local parts = {}
  for _, block in ipairs(blocks) do
    if block.type == 'text' then
      table.insert(parts, block.text)
    elseif block.type == 'resource_link' then
      table.insert(parts, name_of(block.uri))
    end
  end
  return table.concat(parts, '\n\n')
end

local function open(session_id)
  sessions.load(session_id, function(loaded)
    require('deputy.panel').show(loaded)
    require('deputy.panel').open()
  end)
end

--- Shows what `/rewind` or `/fork` has done: the prompt that was gone back over, or the new session.
---@param done deputy.SessionPromptResult
function M.command_done(done)
  -- Files that are open without changes show what is on disk.
  vim.cmd('silent! checktime')
  if done.rewoundPrompt then
    require('deputy.input').restore(text_of(done.rewoundPrompt))
  end
  if done.forkedSessionId then
    open(done.forkedSessionId)
  end
end

local function rewind(session, checkpoint, parts)
  local params = { sessionId = session.id, checkpointId = checkpoint.checkpointId, onConflict = 'skip' }
  client.request('deputy/session/rewind', vim.tbl_extend('error', params, parts), function(result)
    -- Files that are open without changes show what is on disk.
    vim.cmd('silent! checktime')
    if result.prompt then
      require('deputy.input').restore(text_of(result.prompt))
    end
    local left = vim.tbl_map(function(conflict)
      return ('%s: %s'):format(name_of(conflict.uri), text.one_line(conflict.reason))
    end, result.conflicts)
    local what = parts.files and ('restored %s'):format(text.plural(#result.files, 'file')) or 'files are unchanged'
    local rest = #left > 0 and '. Left unchanged: ' .. table.concat(left, ' ') or '. `:DeputyRewind` can undo this.'
    vim.notify(('Deputy: went back; %s%s'):format(what, rest), #left > 0 and vim.log.levels.WARN or vim.log.levels.INFO)
  end)
end

--- Goes back to a checkpoint: asks which one, shows what would change, and asks for files, conversation or both.
function M.rewind()
  pick('Go back to before', function(session, checkpoint)
    local params = { sessionId = session.id, checkpointId = checkpoint.checkpointId }
    client.request('deputy/checkpoint/preview', params, function(preview)
      local can = vim.iter(preview.files):any(function(file)
        return not file.conflict
      end)
      local choices = can and WHAT or { WHAT[3] }
      vim.ui.select(choices, {
        prompt = effect(preview.files) .. '\nGo back with',
        format_item = function(choice)
          return choice[1]
        end,
      }, function(choice)
        if choice then
          rewind(session, checkpoint, choice[2])
        end
      end)
    end)
  end)
end

--- Continues in a new session: asks from which checkpoint.
function M.fork()
  pick('Fork at', function(session, checkpoint)
    local params = { sessionId = session.id, checkpointId = checkpoint.checkpointId }
    client.request('deputy/session/fork', params, function(forked)
      open(forked.sessionId)
    end)
  end)
end

return M
