--- Questions at the code: which buffers show them, and the keys that answer. Leaving a window answers nothing.

local config = require('deputy.config')
local hunks = require('deputy.hunks')
local question = require('deputy.question')
local sessions = require('deputy.session')
local window = require('deputy.window')

local M = {}

local mapped = {} ---@type table<integer, string[]> keys that were set, by buffer
local rows = {} ---@type table<integer, table<string, integer>> line of each question, by buffer

local function uri_of(asked)
  return asked.preview and asked.preview.type == 'diff' and asked.preview.uri
end

--- The open questions about the file in a buffer.
local function questions_in(buf)
  local uri = vim.uri_from_bufnr(buf)
  return vim.tbl_filter(function(asked)
    return uri_of(asked) == uri
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
  local asked = nearest(vim.api.nvim_get_current_buf())
  if asked then
    question.ANSWERS[action](asked)
  else
    vim.notify('Deputy: no question waits here.')
  end
end

local function map(buf)
  if mapped[buf] then
    return
  end
  mapped[buf] = {}
  for action, key in pairs(config.keys('inline')) do
    -- A map of the user's own for this file is left alone.
    if key and vim.fn.maparg(key, 'n', false, true).buffer ~= 1 then
      vim.keymap.set('n', key, function()
        M.act(action)
      end, { buffer = buf, desc = 'Deputy: ' .. action:gsub('_', ' ') })
      table.insert(mapped[buf], key)
    end
  end
end

local function unmap(buf)
  for _, key in ipairs(mapped[buf] or {}) do
    pcall(vim.keymap.del, 'n', key, { buffer = buf })
  end
  mapped[buf] = nil
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
  local key = ('%s %d %d %d'):format(table.concat(ids, ' '), #all, vim.api.nvim_buf_get_changedtick(buf), width)
  if #asked == 0 and not drawn[buf] or drawn[buf] == key then
    return
  end
  hunks.clear(buf)
  drawn[buf], rows[buf] = key, {}
  for _, each in ipairs(asked) do
    rows[buf][each.requestId] = hunks.draw(buf, each, width)
  end
  if #asked > 0 then
    vim.api.nvim_buf_call(buf, function()
      map(buf)
    end)
  else
    drawn[buf] = nil
    unmap(buf)
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
    question.edit(asked)
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

vim.api.nvim_create_autocmd({ 'BufWinEnter', 'TextChanged', 'InsertLeave' }, {
  group = vim.api.nvim_create_augroup('deputy.inline', {}),
  callback = function(event)
    M.refresh(event.buf)
  end,
})

return M
