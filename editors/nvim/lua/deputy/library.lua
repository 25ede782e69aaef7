--- Sessions of the project: to load, rename, export, archive or delete.

local client = require('deputy.client')
local sessions = require('deputy.session')
local text = require('deputy.text')

local M = {}

local MOST = 100

local function load(info)
  sessions.load(info.sessionId, function(session)
    require('deputy.panel').show(session)
  end)
end

local function rename(info)
  vim.ui.input({ prompt = 'Title: ', default = info.title }, function(title)
    if title and vim.trim(title) ~= '' then
      client.request('deputy/session/rename', { sessionId = info.sessionId, title = title }, function()
        sessions.renamed(info.sessionId, title)
      end)
    end
  end)
end

local function archive(info)
  client.request('deputy/session/archive', { sessionId = info.sessionId, archived = not info.archived })
end

local function export(info)
  client.request('deputy/session/export', { sessionId = info.sessionId, format = 'markdown' }, function(answer)
    vim.cmd.tabnew()
    vim.api.nvim_buf_set_lines(0, 0, -1, false, vim.split(answer.text, '\n', { plain = true }))
    vim.bo.filetype, vim.bo.modified = 'markdown', false
  end)
end

local function delete(info)
  local ask = ('Delete the session "%s" with all its agents?'):format(text.one_line(info.title))
  if vim.fn.confirm(ask, '&Delete\n&Cancel', 2) ~= 1 then
    return
  end
  client.request('deputy/session/delete', { sessionId = info.sessionId }, function()
    sessions.forget(info.sessionId)
  end)
end

local function choose_action(info)
  local actions = {
    { 'load', load },
    { 'rename', rename },
    { 'export as Markdown', export },
    { info.archived and 'unarchive' or 'archive', archive },
    { 'delete', delete },
  }
  vim.ui.select(actions, {
    prompt = text.one_line(info.title),
    format_item = function(row)
      return row[1]
    end,
  }, function(row)
    if row then
      row[2](info)
    end
  end)
end

local function line(info)
  local title = info.title ~= '' and text.one_line(info.title) or 'no title'
  local time = os.date('%Y-%m-%d %H:%M', math.floor(text.seconds(info.updatedAt)))
  local parts = { text.cut(title, 50), time, text.plural(info.agentCount, 'agent') }
  if info.archived then
    table.insert(parts, 'archived')
  end
  if info.sessionId == sessions.current then
    table.insert(parts, 'current')
  end
  return table.concat(parts, ' · ')
end

--- Lists the sessions of the project, newest first, and the actions on the selected one.
---@param archived boolean? include archived sessions
function M.pick(archived)
  local params = { cwd = vim.uri_from_fname(client.root()), limit = MOST, includeArchived = archived or false }
  client.request('deputy/session/list', params, function(listed)
    if listed.problem then
      vim.notify('Deputy: ' .. text.one_line(listed.problem), vim.log.levels.WARN)
    end
    if #listed.sessions == 0 then
      if not listed.problem then
        vim.notify('Deputy: there is no session in this project. `:DeputySessions!` lists archived ones too.')
      end
      return
    end
    vim.ui.select(listed.sessions, { prompt = 'Sessions', format_item = line }, function(info)
      if info then
        choose_action(info)
      end
    end)
  end)
end

return M
