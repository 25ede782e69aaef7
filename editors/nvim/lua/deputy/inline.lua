--- Approvals at the code: the buffers that show them, and the keys that answer them. Leaving a window answers nothing.

local config = require('deputy.config')
local grace = require('deputy.grace')
local hunks = require('deputy.hunks')
local approval = require('deputy.approval')
local sessions = require('deputy.session')
local window = require('deputy.window')

local M = {}

local appeared = {} ---@type table<integer, table<string, number>> time when each request appeared, by buffer
local rows = {} ---@type table<integer, table<string, integer>> line of each request, by buffer
local fits = {} ---@type table<integer, table<string, string[]>> texts that proposals apply to, by agent, by buffer

local function uri_of(request)
  return request.preview and request.preview.newText and request.preview.uri
end

--- The open requests for the file in a buffer. Compares paths, because a URI can be encoded in several ways.
local function requests_in(buf)
  local name = vim.fs.normalize(vim.api.nvim_buf_get_name(buf), { expand_env = false })
  return vim.tbl_filter(function(request)
    local uri = uri_of(request)
    return uri and vim.fs.normalize(vim.uri_to_fname(uri), { expand_env = false }) == name
  end, sessions.requests())
end

local function nearest(buf)
  local here, best, distance = vim.api.nvim_win_get_cursor(0)[1], nil, math.huge
  for _, request in ipairs(requests_in(buf)) do
    local away = math.abs((rows[buf] and rows[buf][request.requestId] or 1) - here)
    if away < distance then
      best, distance = request, away
    end
  end
  return best
end

--- Goes to the next or previous approval, also in another file.
---@param by integer
function M.step(by)
  local all = vim.tbl_filter(uri_of, sessions.requests())
  local here = nearest(vim.api.nvim_get_current_buf())
  local at = by > 0 and 0 or 1
  for index, request in ipairs(all) do
    if here and request.requestId == here.requestId then
      at = index
    end
  end
  if #all > 0 then
    M.go_to(all[(at - 1 + by) % #all + 1])
  else
    vim.notify('Deputy: there are no open approvals.')
  end
end

--- Answers the approval nearest to the cursor in the current file.
---@param action string
function M.act(action)
  if action == 'next_question' or action == 'prev_question' then
    return M.step(action == 'next_question' and 1 or -1)
  end
  local buf = vim.api.nvim_get_current_buf()
  local request = nearest(buf)
  if request and not grace.over(appeared[buf] and appeared[buf][request.requestId]) then
    return
  elseif request then
    approval.ANSWERS[action](request)
  else
    vim.notify('Deputy: there is no open approval here.')
  end
end

--- Actions that work without an open approval in the current file.
local STEPS = { 'next_question', 'prev_question' }

local bound = require('deputy.bound_keys').new(function(action)
  M.act(action)
end)

--- Records the texts of a buffer that a request applies to: the one it was made for, and those between the changes of
--- one agent, each of which applies to the result of the one before.
local function expect(buf, request)
  fits[buf] = fits[buf] or {}
  local texts = fits[buf][request.agent.agentId] or {}
  fits[buf][request.agent.agentId] = texts
  vim.list_extend(texts, { request.preview.oldText or '', request.preview.newText })
  if request.batch.index > 0 then
    -- Earlier requests of the batch may be settled already.
    table.insert(texts, table.concat(vim.api.nvim_buf_get_lines(buf, 0, -1, false), '\n'))
  end
end

--- Whether a buffer's text has changed so that a request no longer applies to it.
local function stale(buf, request)
  return not vim.iter(fits[buf][request.agent.agentId]):any(function(whole)
    return hunks.holds(buf, whole)
  end)
end

local drawn = {} ---@type table<integer, string>

--- Shows the open approvals of a buffer.
---@param buf integer
function M.refresh(buf)
  if not config.options.inline or vim.bo[buf].buftype ~= '' or vim.api.nvim_buf_get_name(buf) == '' then
    return
  end
  local request, all = requests_in(buf), sessions.requests()
  local ids = vim.tbl_map(function(each)
    return each.requestId
  end, request)
  local win = vim.fn.bufwinid(buf)
  local width = win == -1 and vim.o.columns or window.width(win)
  local height = win ~= -1 and vim.api.nvim_win_get_height(win) or nil
  local tick = vim.api.nvim_buf_get_changedtick(buf)
  local key = ('%s %d %d %d %d'):format(table.concat(ids, ' '), #all, tick, width, height or 0)
  if #request == 0 and not drawn[buf] or drawn[buf] == key then
    return
  end
  hunks.clear(buf)
  local elsewhere = #request == 0 and vim.iter(all):any(uri_of)
  local keys = config.keys('inline')
  bound:map(buf, keys, #request > 0 and vim.tbl_keys(keys) or elsewhere and STEPS or {})
  local before = appeared[buf] or {}
  drawn[buf], rows[buf], appeared[buf] = key, {}, {}
  for _, each in ipairs(request) do
    if not before[each.requestId] then
      expect(buf, each)
    end
    appeared[buf][each.requestId] = before[each.requestId] or grace.now()
  end
  for _, each in ipairs(request) do
    local shown = hunks.draw(buf, each, width, bound.mapped[buf], height, stale(buf, each))
    rows[buf][each.requestId] = shown.row
    -- Do not move the text while the user is typing.
    local typing = win == vim.api.nvim_get_current_win() and vim.api.nvim_get_mode().mode ~= 'n'
    if each == request[1] and not before[each.requestId] and win ~= -1 and not typing then
      hunks.uncover(win, shown)
    end
  end
  if #request == 0 then
    fits[buf] = nil
  end
  if #request == 0 and not elsewhere then
    drawn[buf] = nil
  end
end

local function refresh_visible()
  for _, win in ipairs(vim.api.nvim_list_wins()) do
    M.refresh(vim.api.nvim_win_get_buf(win))
  end
end

--- Opens the file of a request at the change.
---@param request deputy.PermissionRequest
function M.go_to(request)
  local uri = uri_of(request)
  if not uri then
    require('deputy.lists').inbox()
    return
  end
  if request.preview.oldText == nil then
    require('deputy.proposal').edit(request)
    return
  end
  require('deputy.place').jump(uri)
  local buf = vim.api.nvim_get_current_buf()
  drawn[buf] = nil
  M.refresh(buf)
  local row = rows[buf] and rows[buf][request.requestId]
  if row then
    vim.api.nvim_win_set_cursor(0, { row, 0 })
    vim.cmd('normal! zz')
  end
end

sessions.watch(refresh_visible)

-- An unloaded buffer loses its mappings and virtual lines.
local group = vim.api.nvim_create_augroup('deputy.inline', {})
vim.api.nvim_create_autocmd({ 'BufUnload', 'BufDelete' }, {
  group = group,
  callback = function(event)
    bound:unmap(event.buf)
    drawn[event.buf], rows[event.buf], appeared[event.buf], fits[event.buf] = nil, nil, nil, nil
  end,
})

vim.api.nvim_create_autocmd({ 'BufWinEnter', 'TextChanged', 'InsertLeave' }, {
  group = group,
  callback = function(event)
    M.refresh(event.buf)
  end,
})

return M
