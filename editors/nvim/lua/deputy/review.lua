--- `:DeputyReview`: all unreviewed changes in the quickfix list, each file as a diff; and who changed a line.

local changes = require('deputy.changes')
local client = require('deputy.client')
local text = require('deputy.text')

local M = {}

local bases = {} ---@type table<string, integer> buffers of left sides, by URI
local tab ---@type integer? the tab page of the review

local LISTED = 'Deputy: changes to review'

-- -- the list ----------------------------------------------------------------------------------------------------

local function items()
  return vim.tbl_map(function(at)
    return {
      filename = vim.uri_to_fname(at.file.uri),
      lnum = at.hunk.range.start.line + 1,
      text = ('%s: %s'):format(at.file.status, changes.title(at.hunk)),
    }
  end, changes.all())
end

local function listed()
  local list = vim.fn.getqflist({ title = 0, id = 0 })
  return list.title == LISTED and list.id or nil
end

-- The list follows the review: what was kept or undone leaves it.
changes.watch(function()
  local id = listed()
  if id then
    local at = vim.fn.getqflist({ id = id, idx = 0 }).idx
    local all = items()
    vim.fn.setqflist({}, 'r', { id = id, items = all, title = LISTED })
    if #all > 0 then
      vim.fn.setqflist({}, 'a', { id = id, idx = math.min(at, #all) })
    end
  end
end)

-- -- diffs -------------------------------------------------------------------------------------------------------

--- A scratch buffer with a file's text without its unreviewed changes.
local function base_buffer(uri)
  local buf = bases[uri]
  if not buf or not vim.api.nvim_buf_is_valid(buf) then
    buf = vim.api.nvim_create_buf(false, true)
    bases[uri] = buf
    vim.api.nvim_buf_set_name(buf, 'deputy://base/' .. vim.uri_to_fname(uri))
    vim.bo[buf].bufhidden, vim.bo[buf].swapfile = 'hide', false
    vim.bo[buf].filetype = vim.filetype.match({ filename = vim.uri_to_fname(uri) }) or ''
  end
  return buf
end

--- Requests the left side of a file's diff again.
local function fill(uri)
  client.request('deputy/review/base', { sessionId = changes.session, uri = uri }, function(base)
    local buf = base_buffer(uri)
    local lines = vim.split(type(base.text) == 'string' and base.text or '', '\r?\n')
    if #lines > 1 and lines[#lines] == '' then
      table.remove(lines)
    end
    vim.bo[buf].modifiable = true
    vim.api.nvim_buf_set_lines(buf, 0, -1, false, lines)
    vim.bo[buf].modifiable = false
    vim.cmd('silent! diffupdate')
  end)
end

--- The windows of the review: the left side and the file.
local function sides()
  local left, right
  for _, win in ipairs(vim.api.nvim_tabpage_list_wins(tab)) do
    local buf = vim.api.nvim_win_get_buf(win)
    if vim.startswith(vim.api.nvim_buf_get_name(buf), 'deputy://base/') then
      left = win
    elseif vim.bo[buf].buftype == '' then
      right = right or win
    end
  end
  return left, right
end

local function set_diff(win)
  vim.api.nvim_win_call(win, function()
    vim.cmd('diffthis')
  end)
end

--- Shows the left side of the file in the right window of the review.
local function pair(uri)
  local left, right = sides()
  if not right then
    return
  end
  if not left then
    left = vim.api.nvim_open_win(base_buffer(uri), false, { split = 'left', win = right })
  end
  vim.api.nvim_win_call(left, function()
    vim.cmd('diffoff')
  end)
  vim.wo[left].winfixbuf = false
  vim.api.nvim_win_set_buf(left, base_buffer(uri))
  set_diff(left)
  set_diff(right)
  fill(uri)
end

--- Shows the changes of a file as a diff in the review's tab page: on the left without them, on the right the file.
---@param file deputy.ReviewFile
function M.diff(file)
  if not tab or not vim.api.nvim_tabpage_is_valid(tab) then
    vim.cmd('tab split')
    tab = vim.api.nvim_get_current_tabpage()
  else
    vim.api.nvim_set_current_tabpage(tab)
    local _, right = sides()
    vim.api.nvim_set_current_win(right or vim.api.nvim_get_current_win())
  end
  vim.wo.winfixbuf = false
  vim.cmd.edit(vim.fn.fnameescape(vim.fn.fnamemodify(vim.uri_to_fname(file.uri), ':.')))
  pair(file.uri)
end

--- Lists all changes in the quickfix list, and shows the first file as a diff; the next ones follow the list.
function M.open()
  changes.refresh(function()
    for _, note in ipairs(changes.notes) do
      vim.notify('Deputy: ' .. text.one_line(note))
    end
    local first = changes.all()[1]
    if not first then
      vim.notify('Deputy: there are no changes to review.')
      return
    end
    vim.fn.setqflist({}, ' ', { items = items(), title = LISTED })
    M.diff(first.file)
    vim.cmd('botright copen ' .. math.min(10, math.max(3, #changes.all())))
    vim.cmd('wincmd p')
    vim.cmd('silent! cfirst')
  end)
end

-- Another file of the list in the right window gets its own left side.
vim.api.nvim_create_autocmd('BufWinEnter', {
  group = vim.api.nvim_create_augroup('deputy.review', {}),
  callback = function(event)
    if tab and tab == vim.api.nvim_get_current_tabpage() and listed() then
      local file = changes.at(event.buf)
      local _, right = sides()
      if file and right and vim.api.nvim_win_get_buf(right) == event.buf then
        vim.schedule(function()
          pair(file.uri)
        end)
      end
    end
  end,
})

-- -- blame -------------------------------------------------------------------------------------------------------

local APPROVED = {
  user = 'approved by you',
  rule = 'approved by a rule',
  mode = 'approved by the permission mode',
  sandbox = 'made in the sandbox',
  none = 'needed no approval',
}

--- Shows who changed the line at the cursor, in which call, when, and what approved it.
function M.blame()
  local line = vim.api.nvim_win_get_cursor(0)[1] - 1
  client.request('deputy/review/blame', { uri = vim.uri_from_bufnr(0), line = line }, function(found)
    local lines = {}
    for _, entry in ipairs(found.entries) do
      local label = entry.agent.label == 'primary' and 'Deputy' or text.one_line(entry.agent.label)
      local age = text.duration(os.time() - text.seconds(entry.time))
      table.insert(lines, ('**%s**  %s'):format(label, text.one_line(entry.title)))
      local state = entry.state == 'kept' and 'kept' or 'to review'
      table.insert(lines, ('%s ago, %s, %s'):format(age, APPROVED[entry.approvedBy] or '', state))
      table.insert(lines, '')
    end
    if #lines == 0 then
      vim.notify('Deputy: no agent has changed this line.')
      return
    end
    table.remove(lines)
    vim.lsp.util.open_floating_preview(lines, 'markdown', { focus_id = 'deputy.blame', border = 'rounded' })
  end)
end

return M
