--- Text for display. Text from agents, models or files is made visible first.

local M = {}

-- Invisible characters, and characters that change how a line looks: controls, bidirectional and other format characters,
-- separators, fillers, tags, selectors of variants.
local HIDDEN = {
  '\194[\128-\159]',
  '\194\173',
  '\205\143',
  '\216[\128-\133\156]',
  '\219\157',
  '\220\143',
  '\224\162[\144\145]',
  '\224\163\162',
  '\225\133[\159\160]',
  '\225\158[\180\181]',
  '\225\160[\139-\143]',
  '\226\128[\139-\143]',
  '\226\128[\168-\174]',
  '\226\129[\160-\175]',
  '\226\160\128',
  '\227\133\164',
  '\239\187\191',
  '\239\190\160',
  '\239\191[\176-\187]',
  '\240\145\130\189',
  '\240\145\131\141',
  '\240\147\144[\176-\191]',
  '\240\155\178[\160-\163]',
  '\240\157\133[\179-\186]',
  '\243\160[\128-\135][\128-\191]',
}

-- Spaces that do not separate words, selectors of emoji, characters for private use.
local INEXACT = {
  '\194\160',
  '\225\154\128',
  '\226\128[\128-\138]',
  '\226\128\175',
  '\226\129\159',
  '\227\128\128',
  '\238[\128-\191][\128-\191]',
  '\239[\128-\163][\128-\191]',
  '\239\184[\128-\143]',
  '\243[\176-\191][\128-\191][\128-\191]',
  '\244[\128-\143][\128-\191][\128-\191]',
}

local function code(character)
  return ('<U+%04X>'):format(vim.fn.char2nr(character))
end

local function spelled_out(line, patterns)
  for _, pattern in ipairs(patterns) do
    line = line:gsub(pattern, code)
  end
  return line
end

--- One line with invisible characters spelled out.
---@param line string
---@return string
function M.visible(line)
  if not line:find('[%c\128-\255]') then
    return line
  end
  return spelled_out(line:gsub('\t', '    '):gsub('%c', code), HIDDEN)
end

--- One line of text that the user approves: every character that is not what it looks like is spelled out.
---@param line string
---@return string
function M.exact(line)
  return line:find('[%c\128-\255]') and spelled_out(M.visible(line), INEXACT) or line
end

--- The lines of a text, made visible; only a line feed ends a line.
---@param text string
---@return string[]
function M.lines(text)
  return vim.tbl_map(M.visible, vim.split((text:gsub('\r\n', '\n')), '\n', { plain = true }))
end

--- Whether every line of a text ends with a carriage return and a line feed, and there is no other carriage return.
local function is_windows(text)
  local rest = text:gsub('\r\n', '')
  return not rest:find('[\r\n]')
end

--- The lines of texts that the user approves: texts with the same line endings in all of them show none; otherwise each
--- carriage return is spelled out.
---@param ... string
---@return string[] ... one list for each text
function M.exact_lines(...)
  local texts = { ... }
  local all = vim.iter(texts):all(is_windows)
  return unpack(vim.tbl_map(function(text)
    return vim.tbl_map(M.exact, vim.split(all and text:gsub('\r\n', '\n') or text, '\n', { plain = true }))
  end, texts))
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

--- The first lines, and how many more there are.
---@param lines string[]
---@param most integer
---@return string[]
function M.first(lines, most)
  local first = vim.list_slice(lines, 1, most)
  if #lines > most then
    table.insert(first, '… ' .. M.plural(#lines - most, 'more line'))
  end
  return first
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
  return M.exact(vim.fn.fnamemodify(path, ':.'))
end

return M
