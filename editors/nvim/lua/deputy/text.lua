--- Text for display. Text from agents, models or files is made visible first.

local M = {}

-- Bidirectional controls, zero-width characters, separators, tags: invisible characters that change how a line looks.
local HIDDEN = {
  '\194[\128-\159]',
  '\194\173',
  '\216\156',
  '\226\128[\139-\143]',
  '\226\128[\168-\174]',
  '\226\129[\160-\175]',
  '\239\187\191',
  '\243\160[\128-\135][\128-\191]',
}

local function code(character)
  return ('<U+%04X>'):format(vim.fn.char2nr(character))
end

--- One line with invisible characters spelled out.
---@param line string
---@return string
function M.visible(line)
  if not line:find('[%c\128-\255]') then
    return line
  end
  line = line:gsub('\t', '    '):gsub('%c', code)
  for _, pattern in ipairs(HIDDEN) do
    line = line:gsub(pattern, code)
  end
  return line
end

--- The lines of a text, made visible; only a line feed ends a line.
---@param text string
---@return string[]
function M.lines(text)
  return vim.tbl_map(M.visible, vim.split((text:gsub('\r\n', '\n')), '\n', { plain = true }))
end

--- A text in one line.
---@param text string?
---@return string
function M.one_line(text)
  return M.visible(vim.trim(((text or ''):gsub('%s+', ' '))))
end

--- Width of a line in cells, independent of window options.
---@param line string
---@return integer
function M.width(line)
  return vim.api.nvim_strwidth(line)
end

--- The longest prefix of `text` that fits into `width` cells; at least one character.
local function head(text, width)
  local count = math.max(1, width)
  local kept = vim.fn.strcharpart(text, 0, count)
  while count > 1 and M.width(kept) > width do
    -- A character takes at most two cells.
    count = math.max(1, math.min(count, vim.fn.strchars(kept)) - math.ceil((M.width(kept) - width) / 2))
    kept = vim.fn.strcharpart(text, 0, count)
  end
  return kept
end

--- At most `width` cells, the ellipsis included.
---@param text string
---@param width integer
---@return string
function M.cut(text, width)
  return M.width(text) <= width and text or head(text, width - 1) .. '…'
end

--- A line in parts of at most `width` cells. With `words`, breaks between words and drops the spaces there.
---@param line string
---@param width integer
---@param words boolean?
---@return string[]
function M.folded(line, width, words)
  local parts = {}
  while M.width(line) > width do
    local part = head(line, width)
    local blank = words and line:sub(1, #part + 1):match('^.*%S() +%S*$')
    if blank then
      part = line:sub(1, blank - 1)
    end
    table.insert(parts, part)
    line = line:sub(#part + 1)
    if words then
      line = line:gsub('^ +', '')
    end
  end
  if line ~= '' or #parts == 0 then
    table.insert(parts, line)
  end
  return parts
end

--- A key in key notation: `<CR>`, `<C-s>`, `,a`.
---@param key string
---@return string
function M.key(key)
  local name = vim.fn.keytrans(vim.api.nvim_replace_termcodes(key, true, true, true))
  return (name:gsub('<lt>', '<'))
end

--- A line escaped for the options `winbar` and `statusline`.
---@param line string
---@return string
function M.bar(line)
  return (' ' .. line):gsub('%%', '%%%%')
end

--- The differences between two texts.
---@param old string
---@param new string
---@param how table options of `vim.text.diff`
function M.diff(old, new, how)
  return (vim.text.diff or vim.diff)(old, new, how)
end

---@param count integer
---@param noun string
---@return string
function M.plural(count, noun)
  return ('%d %s%s'):format(count, noun, count == 1 and '' or 's')
end

--- `980`, `3.1k`.
---@param count integer
---@return string
function M.tokens(count)
  return count < 1000 and tostring(count) or ('%.1fk'):format(count / 1000)
end

--- `8 s`, `2 min 5 s`, `1 h 3 min`.
---@param seconds number
---@return string
function M.duration(seconds)
  seconds = math.max(0, math.floor(seconds))
  if seconds < 60 then
    return seconds .. ' s'
  elseif seconds < 3600 then
    return ('%d min %d s'):format(math.floor(seconds / 60), seconds % 60)
  end
  return ('%d h %d min'):format(math.floor(seconds / 3600), math.floor(seconds % 3600 / 60))
end

--- Seconds since the epoch of a time on the wire, `2026-01-31T09:30:00.250Z`.
---@param time string
---@return number
function M.seconds(time)
  local year, month, day, hour, minute, second = time:match('^(%d+)-(%d+)-(%d+)T(%d+):(%d+):([%d.]+)')
  -- Days since the epoch by the civil calendar, as os.time knows local time only.
  local y, m = tonumber(year), tonumber(month)
  y, m = m <= 2 and y - 1 or y, m <= 2 and m + 9 or m - 3
  local days = 365 * y + math.floor(y / 4) - math.floor(y / 100) + math.floor(y / 400)
  days = days + math.floor((153 * m + 2) / 5) + tonumber(day) - 1 - 719468
  return days * 86400 + hour * 3600 + minute * 60 + tonumber(second)
end

--- The path of a `file:` URI for display, relative to the working directory if possible.
---@param uri string
---@return string
function M.path(uri)
  local path = vim.startswith(uri, 'file:') and vim.uri_to_fname(uri) or uri
  return M.visible(vim.fn.fnamemodify(path, ':.'))
end

return M
