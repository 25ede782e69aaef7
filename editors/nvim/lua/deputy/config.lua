--- Options, their defaults and their validation.

local M = {}

---@class deputy.Options
M.defaults = {
  --- Command line of the server. nil: search for it (`:checkhealth deputy` shows where).
  server = nil, ---@type string[]?
  --- Server settings, listed in docs/settings.md.
  settings = {}, ---@type table<string, any>
  --- Additional environment variables of the server.
  env = {}, ---@type table<string, string>
  --- Names of files or folders that mark the root of a project.
  root_markers = { '.git', '.deputy' }, ---@type string[]
  window = {
    --- auto: right if there is room for both, otherwise bottom.
    position = 'auto', ---@type 'auto'|'right'|'left'|'bottom'|'tab'
    --- Below 1: share of the screen. Otherwise columns, or lines at the bottom.
    size = 0.45,
    --- Lines of the input area.
    input_height = 4,
  },
  --- Start timeout of the server in seconds.
  start_timeout = 30,
  --- Show one notification when an approval is needed.
  notify = true,
  --- Show proposed changes in the windows of their files.
  inline = true,
  --- Mark unreviewed changes in the windows of their files.
  review = true,
  --- Keys; `false` disables one. `keys = false` disables all: use the <Plug> maps.
  keys = {
    --- In the session window, on the line of an approval, an agent or a location.
    session = {
      open = '<CR>',
      toggle = '<Tab>',
      approve = 'a',
      approve_always = 'A',
      approve_project = 'gP',
      approve_user = 'gU',
      approve_edits = 'gE',
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
      agents = 'gA',
      inbox = 'gi',
      next_mode = 'gm',
      help = 'g?',
      close = 'q',
    },
    --- In the input area.
    input = { send = '<CR>', send_insert = '<C-s>', stop = '<C-c>' },
    --- In a file with an open approval.
    inline = {
      approve = '<LocalLeader>a',
      approve_always = '<LocalLeader>A',
      approve_project = '<LocalLeader>gP',
      approve_user = '<LocalLeader>gU',
      approve_edits = '<LocalLeader>gE',
      approve_agent = '<LocalLeader>ga',
      deny = '<LocalLeader>d',
      deny_reason = '<LocalLeader>D',
      deny_always = '<LocalLeader>gD',
      edit = '<LocalLeader>e',
      next_question = '<LocalLeader>n',
      prev_question = '<LocalLeader>p',
    },
    --- In a file with unreviewed changes; the first two also in other files, while there are any.
    review = {
      next_change = ']h',
      prev_change = '[h',
      keep = '<LocalLeader>hk',
      undo = '<LocalLeader>hu',
      keep_file = '<LocalLeader>hK',
      undo_file = '<LocalLeader>hU',
      blame = '<LocalLeader>hb',
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
      table.insert(problems, ('`%s` is not an option; `:h deputy-options` lists them'):format(at))
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

--- Validation errors of `given`; empty if it is valid.
---@param given table
---@return string[]
function M.problems(given)
  if type(given) ~= 'table' then
    return { 'options must be a table, not ' .. vim.inspect(given) }
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

--- Merges `given` into the defaults. If any option is invalid, reports it and uses the defaults only.
---@param given table?
function M.set(given)
  M.given = given or {}
  M.wrong = M.problems(M.given)
  if #M.wrong > 0 then
    vim.notify(
      'Deputy: invalid options in setup(), using the defaults: ' .. table.concat(M.wrong, '; '),
      vim.log.levels.ERROR
    )
    M.options = vim.deepcopy(M.defaults)
    return
  end
  M.options = vim.tbl_deep_extend('force', M.defaults, M.given)
end

--- The keys of an area, by action.
---@param area 'session'|'input'|'inline'|'review'
---@return table<string, string|false>
function M.keys(area)
  local keys = M.options.keys
  return keys and keys[area] or {}
end

return M
