--- Marks of unreviewed changes in files: signs, what was there before, who changed it, and keys. In a namespace of
--- their own, so that they work beside other plugins' signs.

local bound_keys = require('deputy.bound_keys')
local changes = require('deputy.changes')
local config = require('deputy.config')
local hunks = require('deputy.hunks')
local place = require('deputy.place')
local text = require('deputy.text')

local M = {}

local ns = vim.api.nvim_create_namespace('deputy.review')
--- Above the signs of plugins that show what is not committed.
local PRIORITY = 20
--- Milliseconds after an edit of the user until the list is requested again.
local TYPING = 400
--- Lines of removed text that are shown.
local MOST_OLD = 12

local SIGNS = {
  added = { '▎', 'DeputyAddSign' },
  modified = { '▎', 'DeputyChangeSign' },
  deleted = { '▔', 'DeputyDeleteSign' },
}

local shown = {} ---@type table<integer, boolean> marked buffers

local function kind_of(hunk)
  if #hunk.lines == 0 then
    return 'deleted'
  end
  return #hunk.baseLines == 0 and 'added' or 'modified'
end

-- -- actions -----------------------------------------------------------------------------------------------------

local function nothing()
  vim.notify('Deputy: there is no change to review here.')
end

--- The changed file in the current window, and the hunk at the cursor or the only one.
local function here()
  local file = changes.at(0)
  if not file then
    return nil, nil
  end
  return file, changes.hunk_at(file, vim.api.nvim_win_get_cursor(0)[1]) or #file.hunks == 1 and file.hunks[1] or nil
end

--- Goes to the next or the previous hunk, also in another file.
---@param by integer
local function step(by)
  local found = changes.next(changes.at(0), vim.api.nvim_win_get_cursor(0)[1], by)
  if not found then
    return nothing()
  end
  local line = found.hunk.range.start.line + 1
  if changes.at(0) == found.file then
    vim.cmd("normal! m'")
    vim.api.nvim_win_set_cursor(0, { math.min(line, vim.api.nvim_buf_line_count(0)), 0 })
  elseif found.file.status == 'deleted' then
    require('deputy.review').diff(found.file)
  else
    place.jump(found.file.uri, line)
  end
end

--- Keeps or undoes the hunk at the cursor, and goes on to the next one of the file.
local function review_hunk(verb)
  local file, hunk = here()
  if not file or not hunk then
    return nothing()
  end
  local more = #file.hunks > 1
  changes.review(verb, { hunkIds = { hunk.hunkId } }, function()
    if more and changes.at(0) then
      step(1)
    elseif #changes.files > 0 then
      vim.notify(('Deputy: %s left in other files.'):format(changes.count(#changes.all())))
    else
      vim.notify('Deputy: all changes are reviewed.')
    end
  end)
end

local function review_file(verb)
  local file = changes.at(0)
  if file then
    changes.review(verb, { uri = file.uri })
  else
    nothing()
  end
end

local function review_all(verb)
  local count = #changes.all()
  if count == 0 then
    return nothing()
  end
  local question = ('Undo %s of agents in %s? Lines that you typed stay.'):format(
    changes.count(count),
    text.plural(#changes.files, 'file')
  )
  if verb == 'keep' or vim.fn.confirm(question, '&Undo all\n&Cancel', 2) == 1 then
    changes.review(verb, { all = true })
  end
end

local ACTIONS = {
  next_change = function()
    step(1)
  end,
  prev_change = function()
    step(-1)
  end,
  keep = function()
    review_hunk('keep')
  end,
  undo = function()
    review_hunk('undo')
  end,
  keep_file = function()
    review_file('keep')
  end,
  undo_file = function()
    review_file('undo')
  end,
  keep_all = function()
    review_all('keep')
  end,
  undo_all = function()
    review_all('undo')
  end,
  blame = function()
    require('deputy.review').blame()
  end,
}

--- Runs an action on the changes of the current file.
---@param action string
function M.act(action)
  ACTIONS[action]()
end

-- -- drawing -----------------------------------------------------------------------------------------------------

local bound = bound_keys.new(M.act)

--- Actions that work in files without changes, while there are some in others.
local STEPS = { 'next_change', 'prev_change' }

--- Lines that were removed, as virtual lines.
local function old_lines(hunk, width)
  local lines = {}
  for index, line in ipairs(hunk.baseLines) do
    if index > MOST_OLD then
      local more = ('  … %s'):format(text.plural(#hunk.baseLines - MOST_OLD, 'more line'))
      table.insert(lines, { { more, 'DeputyDim' } })
      break
    end
    table.insert(lines, hunks.row(text.cut(text.exact(line), width - 2), '-', 'DeputyDelete', width))
  end
  return lines
end

--- `fix the limit +1 −1 · \hk keep · \hu undo`.
local function title_of(hunk, keys)
  local parts = { changes.title(hunk) }
  for _, action in ipairs({ 'keep', 'undo' }) do
    if keys[action] then
      table.insert(parts, ('%s %s'):format(text.key(keys[action]), action))
    end
  end
  return table.concat(parts, ' · ')
end

local function draw_hunk(buf, hunk, width, keys)
  local count = vim.api.nvim_buf_line_count(buf)
  local first, past = hunk.range.start.line, hunk.range['end'].line
  local sign = SIGNS[kind_of(hunk)]
  for row = first, math.max(first, past - 1) do
    if row < count then
      vim.api.nvim_buf_set_extmark(buf, ns, row, 0, {
        sign_text = sign[1],
        sign_hl_group = sign[2],
        priority = PRIORITY,
      })
    end
  end
  local row = math.min(first, count - 1)
  -- Removed lines at the end of the file are below its last line. Above the first line they would be invisible.
  local is_end, is_top = first >= count, first == 0
  vim.api.nvim_buf_set_extmark(buf, ns, row, 0, {
    virt_text = { { '  ' .. title_of(hunk, keys), 'DeputyDim' } },
    virt_text_pos = 'eol',
    virt_lines = old_lines(hunk, width),
    virt_lines_above = not is_end and not is_top,
    priority = PRIORITY,
  })
end

--- Marks the changes in a buffer, or removes the marks of a buffer without changes.
---@param buf integer
function M.refresh(buf)
  local file = config.options.review and changes.at(buf) or nil
  local elsewhere = config.options.review and #changes.files > 0 and vim.bo[buf].buftype == ''
  if not file and not elsewhere and not shown[buf] then
    return
  end
  vim.api.nvim_buf_clear_namespace(buf, ns, 0, -1)
  local keys = config.keys('review')
  shown[buf] = file ~= nil or elsewhere or nil
  bound:map(buf, keys, file and vim.tbl_keys(keys) or elsewhere and STEPS or {})
  local win = vim.fn.bufwinid(buf)
  local width = win == -1 and vim.o.columns or require('deputy.window').width(win)
  for _, hunk in ipairs(file and file.hunks or {}) do
    draw_hunk(buf, hunk, width, bound.mapped[buf])
  end
end

changes.watch(function()
  local done = {}
  for _, win in ipairs(vim.api.nvim_list_wins()) do
    done[vim.api.nvim_win_get_buf(win)] = true
  end
  for buf in pairs(vim.tbl_extend('force', done, shown)) do
    if vim.api.nvim_buf_is_loaded(buf) then
      M.refresh(buf)
    end
  end
end)

local typing
local group = vim.api.nvim_create_augroup('deputy.marks', {})
vim.api.nvim_create_autocmd({ 'BufUnload', 'BufDelete' }, {
  group = group,
  callback = function(event)
    bound:unmap(event.buf)
    shown[event.buf] = nil
  end,
})

vim.api.nvim_create_autocmd('BufWinEnter', {
  group = group,
  callback = function(event)
    M.refresh(event.buf)
  end,
})

-- Extmarks follow edits; the list is needed again, because the hunks change too.
vim.api.nvim_create_autocmd({ 'TextChanged', 'InsertLeave' }, {
  group = group,
  callback = function(event)
    if typing or not changes.at(event.buf) then
      return
    end
    typing = vim.defer_fn(function()
      typing = nil
      changes.refresh()
    end, TYPING)
  end,
})

return M
