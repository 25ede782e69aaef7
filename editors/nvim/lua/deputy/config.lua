--- Options, their defaults, and what is wrong with what was given.

local M = {}

---@class deputy.Options
M.defaults = {
  --- Command line of the server; nil: looked for (`:checkhealth deputy` says where).
  server = nil, ---@type string[]?
  --- Settings of the server, as docs/settings.md lists them.
  settings = {}, ---@type table<string, any>
  --- Environment variables for the server beside those of Neovim.
  env = {}, ---@type table<string, string>
  --- Names of files or folders that mark the root of a project.
  root_markers = { '.git', '.deputy' }, ---@type string[]
  window = {
    --- auto: right where there is room for both, else at the bottom.
    position = 'auto', ---@type 'auto'|'right'|'left'|'bottom'|'tab'
    --- Share of the screen, below 1, or columns (lines, at the bottom).
    size = 0.45,
    --- Lines of the input area.
    input_height = 4,
  },
  --- Seconds in which a server that was started must answer.
  start_timeout = 30,
  --- One notification when a question begins to wait.
  notify = true,
  --- Proposed changes are shown in the windows that show their files.
  inline = true,
  --- Keys; `false` leaves one out. `keys = false` leaves out all: use the <Plug> maps.
  keys = {
    --- In the session window, on the line of a question, an agent or a place.
    session = {
      open = '<CR>',
      toggle = '<Tab>',
      approve = 'a',
      approve_always = 'A',
      approve_agent = 'ga',
      deny = 'd',
      deny_reason = 'D',
      deny_always = 'gD',
      edit = 'e',
      go_to_code = 'gd',
      next_question = ']q',
      prev_question = '[q',
      stop = 'x',
      steer = 's',
      revert = 'R',
      parent = '-',
      next_thread = ']t',
      prev_thread = '[t',
      input = 'i',
      unqueue = 'U',
      continue = 'C',
      agents = 'gt',
      inbox = 'gi',
      help = 'g?',
      close = 'q',
    },
    --- In the input area.
    input = { send = '<CR>', send_insert = '<C-s>', stop = '<C-c>' },
    --- In a file, while a change to it waits for an answer.
    inline = {
      approve = '<LocalLeader>a',
      approve_always = '<LocalLeader>A',
      approve_agent = '<LocalLeader>ga',
      deny = '<LocalLeader>d',
      deny_reason = '<LocalLeader>D',
      deny_always = '<LocalLeader>gD',
      edit = '<LocalLeader>e',
      next_question = '<LocalLeader>n',
      prev_question = '<LocalLeader>p',
    },
  },
}

---@type deputy.Options
M.options = vim.deepcopy(M.defaults)

local TYPES = { server = 'table', size = 'number' }
local POSITIONS = { auto = true, right = true, left = true, bottom = true, tab = true }
local FREE = { settings = true, env = true, server = true, root_markers = true }

local function is_text(value)
  return type(value) == 'string'
end

local function check(given, defaults, path, problems)
  for name, value in pairs(given) do
    local at, default = path .. tostring(name), defaults[name]
    local wanted = TYPES[name] or type(default)
    if default == nil and name ~= 'server' then
      table.insert(problems, ('`%s` is no option; `:h deputy-options` lists them'):format(at))
    elseif vim.startswith(at, 'keys') and value == false then
      goto continue
    elseif type(value) ~= wanted then
      table.insert(problems, ('`%s` must be a %s, not %s'):format(at, wanted, vim.inspect(value)))
    elseif wanted == 'table' and not FREE[name] then
      check(value, default, at .. '.', problems)
    end
    ::continue::
  end
end

--- What is wrong with `given`, in words; empty when nothing is.
---@param given table
---@return string[]
function M.problems(given)
  if type(given) ~= 'table' then
    return { 'they must be a table, not ' .. vim.inspect(given) }
  end
  local problems = {}
  check(given, M.defaults, '', problems)
  local position = type(given.window) == 'table' and given.window.position
  if type(position) == 'string' and not POSITIONS[position] then
    table.insert(problems, '`window.position` must be auto, right, left, bottom or tab')
  end
  for _, name in ipairs({ 'server', 'root_markers' }) do
    local list = given[name]
    if type(list) == 'table' and not (vim.islist(list) and #list > 0 and vim.iter(list):all(is_text)) then
      table.insert(problems, ('`%s` must be a list of strings, not %s'):format(name, vim.inspect(list)))
    end
  end
  table.sort(problems)
  return problems
end

--- Takes `given` over the defaults. Wrong options are told and left out as a whole, so that the plugin works.
---@param given table?
function M.set(given)
  M.given = given or {}
  M.wrong = M.problems(M.given)
  if #M.wrong > 0 then
    vim.notify('Deputy: the options of setup() are not used: ' .. table.concat(M.wrong, '; '), vim.log.levels.ERROR)
    M.options = vim.deepcopy(M.defaults)
    return
  end
  M.options = vim.tbl_deep_extend('force', M.defaults, M.given)
end

--- The keys of an area, by action.
---@param area 'session'|'input'|'inline'
---@return table<string, string|false>
function M.keys(area)
  local keys = M.options.keys
  return keys and keys[area] or {}
end

return M
