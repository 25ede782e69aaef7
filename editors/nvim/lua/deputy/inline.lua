--- Questions at the code: which buffers show them, and the keys that answer. Leaving a window answers nothing.

local config = require('deputy.config')
local grace = require('deputy.grace')
local hunks = require('deputy.hunks')
local question = require('deputy.question')
local sessions = require('deputy.session')
local window = require('deputy.window')

local M = {}

local mapped = {} ---@type table<integer, table<string, string>> keys that work, by action, by buffer
local set = {} ---@type table<integer, string[]> those of them that were set here, by buffer
local came = {} ---@type table<integer, table<string, number>> when each question came, by buffer
local rows = {} ---@type table<integer, table<string, integer>> line of each question, by buffer
local fits = {} ---@type table<integer, table<string, string[]>> texts that proposals are for, by agent, by buffer

local function uri_of(asked)
  return asked.preview and asked.preview.type == 'diff' and asked.preview.uri
end

--- The open questions about the file in a buffer. Names are compared, since an address may be written in many ways.
local function questions_in(buf)
  local name = vim.fs.normalize(vim.api.nvim_buf_get_name(buf), { expand_env = false })
  return vim.tbl_filter(function(asked)
    local uri = uri_of(asked)
    return uri and vim.fs.normalize(vim.uri_to_fname(uri), { expand_env = false }) == name
  end, sessions.questions())
end

local function nearest(buf)
  local here, best, distance = vim.api.nvim_win_get_cursor(0)[1], nil, math.huge
  for _, asked in ipairs(questions_in(buf)) do
    local away = math.abs((rows[buf] and rows[buf][asked.requestId] or 1) - here)
    if away < distance then
      best, distance = asked, away
    end
  end
  return best
end

--- Goes to the next or previous question, which may be in another file.
---@param by integer
function M.step(by)
  local all = vim.tbl_filter(uri_of, sessions.questions())
  local here = nearest(vim.api.nvim_get_current_buf())
  local at = by > 0 and 0 or 1
  for index, asked in ipairs(all) do
    if here and asked.requestId == here.requestId then
      at = index
    end
  end
  if #all > 0 then
    M.go_to(all[(at - 1 + by) % #all + 1])
  else
    vim.notify('Deputy: no question waits for you.')
  end
end

--- Answers the question that is nearest to the cursor in the current file.
---@param action string
function M.act(action)
  if action == 'next_question' or action == 'prev_question' then
    return M.step(action == 'next_question' and 1 or -1)
  end
  local buf = vim.api.nvim_get_current_buf()
  local asked = nearest(buf)
  if asked and not grace.over(came[buf] and came[buf][asked.requestId]) then
    return
  elseif asked then
    question.ANSWERS[action](asked)
  else
    vim.notify('Deputy: no question waits here.')
  end
end

local function plug(action)
  return ('<Plug>(deputy-%s)'):format((action:gsub('_', '-')))
end

--- Lead to questions in other files, too.
local STEPS = { 'next_question', 'prev_question' }

local function unmap(buf)
  for _, key in ipairs(set[buf] or {}) do
    pcall(vim.keymap.del, 'n', key, { buffer = buf })
  end
  mapped[buf], set[buf] = nil, nil
end

--- Maps the keys of `actions` in a buffer, and no others.
local function map(buf, actions)
  unmap(buf)
  mapped[buf], set[buf] = {}, {}
  for _, action in ipairs(actions) do
    local key = config.keys('inline')[action]
    -- A map of the user's own is left alone, and its key answers only where it was made to.
    local own = key and vim.fn.maparg(key, 'n')
    if key and own == plug(action) then
      mapped[buf][action] = key
    elseif key and own == '' then
      vim.keymap.set('n', key, function()
        M.act(action)
      end, { buffer = buf, desc = 'Deputy: ' .. action:gsub('_', ' ') })
      mapped[buf][action] = key
      table.insert(set[buf], key)
    end
  end
end

--- Takes down which texts of a buffer a question is good for: the one it was made for, and those between the changes
--- of one agent, each of which is made for what the one before it makes.
local function expect(buf, asked)
  fits[buf] = fits[buf] or {}
  local texts = fits[buf][asked.agent.agentId] or {}
  fits[buf][asked.agent.agentId] = texts
  vim.list_extend(texts, { asked.preview.oldText or '', asked.preview.newText })
  if asked.batch.index > 0 then
    -- What came before it may be settled.
    table.insert(texts, table.concat(vim.api.nvim_buf_get_lines(buf, 0, -1, false), '\n'))
  end
end

--- Whether the text of a buffer has become another than a question is good for.
local function stale(buf, asked)
  return not vim.iter(fits[buf][asked.agent.agentId]):any(function(whole)
    return hunks.holds(buf, whole)
  end)
end

local drawn = {} ---@type table<integer, string>

--- Shows in a buffer what waits for an answer there.
---@param buf integer
function M.refresh(buf)
  if not config.options.inline or vim.bo[buf].buftype ~= '' or vim.api.nvim_buf_get_name(buf) == '' then
    return
  end
  local asked, all = questions_in(buf), sessions.questions()
  local ids = vim.tbl_map(function(each)
    return each.requestId
  end, asked)
  local win = vim.fn.bufwinid(buf)
  local width = win == -1 and vim.o.columns or window.width(win)
  local height = win ~= -1 and vim.api.nvim_win_get_height(win) or nil
  local tick = vim.api.nvim_buf_get_changedtick(buf)
  local key = ('%s %d %d %d %d'):format(table.concat(ids, ' '), #all, tick, width, height or 0)
  if #asked == 0 and not drawn[buf] or drawn[buf] == key then
    return
  end
  hunks.clear(buf)
  local elsewhere = #asked == 0 and vim.iter(all):any(uri_of)
  vim.api.nvim_buf_call(buf, function()
    map(buf, #asked > 0 and vim.tbl_keys(config.keys('inline')) or elsewhere and STEPS or {})
  end)
  local before = came[buf] or {}
  drawn[buf], rows[buf], came[buf] = key, {}, {}
  for _, each in ipairs(asked) do
    if not before[each.requestId] then
      expect(buf, each)
    end
    came[buf][each.requestId] = before[each.requestId] or grace.now()
  end
  for _, each in ipairs(asked) do
    local shown = hunks.draw(buf, each, width, mapped[buf], height, stale(buf, each))
    rows[buf][each.requestId] = shown.row
    -- Text does not move under the hands of somebody who writes.
    local writes = win == vim.api.nvim_get_current_win() and vim.api.nvim_get_mode().mode ~= 'n'
    if each == asked[1] and not before[each.requestId] and win ~= -1 and not writes then
      hunks.uncover(win, shown)
    end
  end
  if #asked == 0 then
    fits[buf] = nil
  end
  if #asked == 0 and not elsewhere then
    drawn[buf] = nil
  end
end

local function refresh_visible()
  for _, win in ipairs(vim.api.nvim_list_wins()) do
    M.refresh(vim.api.nvim_win_get_buf(win))
  end
end

--- Opens the file of a question at the place of the change.
---@param asked deputy.PermissionRequest
function M.go_to(asked)
  local uri = uri_of(asked)
  if not uri then
    require('deputy.lists').inbox()
    return
  end
  if asked.preview.oldText == nil then
    require('deputy.proposal').edit(asked)
    return
  end
  require('deputy.place').jump(uri)
  local buf = vim.api.nvim_get_current_buf()
  drawn[buf] = nil
  M.refresh(buf)
  local row = rows[buf] and rows[buf][asked.requestId]
  if row then
    vim.api.nvim_win_set_cursor(0, { row, 0 })
    vim.cmd('normal! zz')
  end
end

sessions.watch(refresh_visible)

-- An unloaded buffer loses its maps and its virtual lines.
local group = vim.api.nvim_create_augroup('deputy.inline', {})
vim.api.nvim_create_autocmd({ 'BufUnload', 'BufDelete' }, {
  group = group,
  callback = function(event)
    unmap(event.buf)
    drawn[event.buf], rows[event.buf], came[event.buf], fits[event.buf] = nil, nil, nil, nil
  end,
})

vim.api.nvim_create_autocmd({ 'BufWinEnter', 'TextChanged', 'InsertLeave' }, {
  group = group,
  callback = function(event)
    M.refresh(event.buf)
  end,
})

return M
