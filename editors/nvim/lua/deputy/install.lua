--- Installing the server, with the same program as the VS Code extension. Nothing is downloaded before the user agrees.

local bundle = require('deputy.bundle')
local text = require('deputy.text')

local M = {}

--- Called with each step, for the session window.
M.on_step = function(_) end ---@type fun(line: string)

---@class deputy.Tool
---@field kind 'uv'|'python'
---@field path string

local PYTHONS = { 'python3.14', 'python3.13', 'python3.12', 'python3.11', 'python3', 'python' }
--- Exits with 0 if the Python is new enough and can make environments.
local CAN_INSTALL = 'import sys, venv, ensurepip; sys.exit(0 if sys.version_info >= (3, 11) else 4)'
local PROBE_TIMEOUT = 10000
--- Milliseconds that an installation may take in all.
local LIMIT = 45 * 60 * 1000

local running ---@type vim.SystemObj?
local waiting = {} ---@type (fun(installed: boolean))[]

local function works(path, arguments)
  if path == '' or vim.fn.executable(path) ~= 1 then
    return false
  end
  local command = vim.list_extend({ path }, arguments)
  local started, process = pcall(vim.system, command, { timeout = PROBE_TIMEOUT, cwd = vim.fn.stdpath('data') })
  return started and process:wait().code == 0
end

--- What can install the server: uv, otherwise a Python. nil if there is neither.
---@return deputy.Tool?
function M.find_tool()
  vim.fn.mkdir(vim.fn.stdpath('data'), 'p')
  local home = vim.uv.os_homedir() or ''
  local own = vim.fs.joinpath(bundle.storage(), 'uv', 'uv')
  for _, path in ipairs({ vim.fn.exepath('uv'), home .. '/.local/bin/uv', home .. '/.cargo/bin/uv', own }) do
    if works(path, { '--version' }) then
      return { kind = 'uv', path = path }
    end
  end
  for _, name in ipairs(PYTHONS) do
    local path = vim.fn.exepath(name)
    if works(path, { '-I', '-c', CAN_INSTALL }) then
      return { kind = 'python', path = path }
    end
  end
end

--- What is downloaded, from where and to where: the user's consent is to this sentence.
---@param tool deputy.Tool?
---@return string
function M.consent(tool)
  local into = vim.fn.fnamemodify(bundle.storage(), ':~')
  if not tool then
    return ('This downloads uv from astral.sh, and with it Python and the packages of the server, into %s.'):format(
      into
    )
  end
  local path = vim.fn.fnamemodify(tool.path, ':~')
  return ('This downloads its packages from the Python package index with %s, into %s.'):format(path, into)
end

local function finish(installed, message)
  running = nil
  vim.notify('Deputy: ' .. message, installed and vim.log.levels.INFO or vim.log.levels.ERROR)
  local all = waiting
  waiting = {}
  for _, callback in ipairs(all) do
    callback(installed)
  end
end

local function step(line)
  M.on_step(line)
  vim.api.nvim_echo({ { 'Deputy: ' .. line } }, false, {})
  vim.cmd.redraw()
end

--- Calls `read` with each line of a stream.
local function by_line(read)
  local rest = ''
  return function(_, data)
    rest = rest .. (data or '')
    for line in rest:gmatch('([^\n]*)\n') do
      vim.schedule(function()
        read(line)
      end)
    end
    rest = rest:match('[^\n]*$')
  end
end

--- Runs a program until it ends. Its standard input stays open until then, because the installer ends with it.
local function follow(command, environment, read, done)
  local last = ''
  local function read_error(line)
    last = line ~= '' and line or last
    vim.lsp.log.info('install', line)
  end
  local started, process = pcall(vim.system, command, {
    cwd = bundle.storage(),
    env = environment,
    stdin = true,
    timeout = LIMIT,
    stdout = by_line(read),
    stderr = by_line(read_error),
  }, function(ended)
    vim.schedule(function()
      done(ended.code, last)
    end)
  end)
  if started then
    running = process
  else
    done(-1, tostring(process))
  end
end

---@param tool deputy.Tool
local function run_installer(tool)
  local own = vim.fs.joinpath(bundle.storage(), 'uv')
  -- Python that the plugin's own uv downloads stays in its folder.
  local environment = vim.startswith(tool.path, own) and { UV_PYTHON_INSTALL_DIR = own .. '/python' } or {}
  local command = tool.kind == 'uv'
      and { tool.path, 'run', '--no-project', '--python', '>=3.11', bundle.program('install.py'), '--uv', tool.path }
    or { tool.path, '-I', bundle.program('install.py') }
  local installed, message = false, nil
  follow(vim.list_extend(command, bundle.arguments()), environment, function(line)
    local valid, found = pcall(vim.json.decode, line)
    found = valid and found or { line = line }
    if found.step then
      step(('installing the server, %d of %d: %s'):format(found.step, found.of, found.text))
    elseif found.ready then
      installed, message = true, ('the server %s is installed'):format(found.ready)
    elseif found.failed then
      message = ('the server is not installed. %s `:DeputyInstall` tries again.'):format(text.one_line(found.message))
    elseif found.line then
      vim.lsp.log.info('install', found.line)
    end
  end, function(_, last)
    finish(installed, message or ('the installer did not finish. %s'):format(text.one_line(last)))
  end)
end

local function download_uv()
  step('downloading uv')
  local folder = vim.fs.joinpath(bundle.storage(), 'uv')
  follow({ 'sh', bundle.program('get-uv.sh'), folder }, {}, function() end, function(code, last)
    if code == 0 then
      run_installer({ kind = 'uv', path = vim.fs.joinpath(folder, 'uv') })
    else
      finish(false, ('uv could not be downloaded. %s'):format(text.one_line(last)))
    end
  end)
end

--- Installs the server, or repairs it, without a question; a second call waits for the first.
---@param tool deputy.Tool?
---@param callback fun(installed: boolean)
function M.run(tool, callback)
  table.insert(waiting, callback)
  if #waiting > 1 then
    return
  end
  vim.fn.mkdir(bundle.storage(), 'p')
  require('deputy.client').stop(function()
    if tool then
      run_installer(tool)
    else
      download_uv()
    end
  end)
end

--- Asks whether to install the server, and does it. The callback gets false if the user does not want to.
---@param why string
---@param callback fun(installed: boolean)
function M.offer(why, callback)
  local tool = M.find_tool()
  vim.ui.select({ 'Install', 'Not now' }, { prompt = ('%s %s'):format(why, M.consent(tool)) }, function(choice)
    if choice == 'Install' then
      M.run(tool, callback)
    else
      callback(false)
    end
  end)
end

--- `:DeputyInstall`; with `now` it asks nothing and waits for the end, for plugin managers.
---@param now boolean
function M.command(now)
  if not now then
    return M.offer('Install the server of Deputy?', function() end)
  end
  local done = false
  M.run(M.find_tool(), function()
    done = true
  end)
  vim.wait(LIMIT, function()
    return done
  end, 50)
end

--- `:DeputyUninstall`: removes what was installed. Sessions stay.
function M.remove()
  local folder = vim.fn.fnamemodify(bundle.storage(), ':~')
  vim.ui.select(
    { 'Remove', 'Cancel' },
    { prompt = ('Remove the installed server, %s?'):format(folder) },
    function(choice)
      if choice == 'Remove' then
        require('deputy.client').stop(function()
          vim.fn.delete(bundle.storage(), 'rf')
          vim.notify('Deputy: the server was removed')
        end)
      end
    end
  )
end

vim.api.nvim_create_autocmd('VimLeavePre', {
  group = vim.api.nvim_create_augroup('deputy.install', {}),
  callback = function()
    if running then
      running:write(nil) -- the installer removes what it has begun
    end
  end,
})

return M
