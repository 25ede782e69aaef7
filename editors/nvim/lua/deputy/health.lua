--- `:checkhealth deputy`

local M = {}

local function check_version()
  vim.health.info('plugin ' .. require('deputy.version'))
  if vim.fn.has('nvim-0.11') == 1 then
    vim.health.ok('Neovim ' .. tostring(vim.version()))
  else
    vim.health.error('Neovim 0.11 or newer is needed', { 'install a newer Neovim' })
  end
end

local function check_options(config)
  local wrong = config.problems(config.given or {})
  for _, problem in ipairs(wrong) do
    vim.health.error('setup(): ' .. problem, { 'correct it in your init.lua; until then the defaults are used' })
  end
  if #wrong == 0 then
    vim.health.ok('the options are valid')
  end
end

local function check_server(client)
  local bundle, server = require('deputy.bundle'), require('deputy.server')
  local command, how = server.find()
  if not command then
    vim.health.error(how, { 'run `:DeputyInstall`' })
    return
  end
  local version = vim.fn.executable(command[1]) == 1 and server.version(command[1])
  if version then
    vim.health.ok(('server deputy %s, from %s: %s'):format(version, how, command[1]))
  else
    local advice = 'correct the option `server`, or remove it and run `:DeputyInstall`'
    vim.health.error(('the server `%s` cannot be run (%s)'):format(command[1], how), { advice })
  end
  local state = bundle.state()
  if state == 'broken' or state == 'outdated' then
    vim.health.warn('the server in ' .. bundle.folder() .. ' is ' .. state, { 'run `:DeputyInstall`' })
  end
  local running = client.get()
  vim.health.info(
    running and 'the server runs in ' .. running.root_dir or 'the server is not running; `:Deputy` starts it'
  )
end

local function check_model(config)
  local settings = config.options.settings
  if settings.model == 'offline' then
    vim.health.ok('the offline model is selected: it searches and replaces by fixed rules')
  elseif vim.env.ANTHROPIC_API_KEY or config.options.env.ANTHROPIC_API_KEY then
    vim.health.ok('an API key is set in the environment')
  else
    vim.health.warn('ANTHROPIC_API_KEY is not set: the offline model answers', {
      'set the variable before you start Neovim',
    })
  end
end

local function check_parser()
  if pcall(vim.treesitter.language.add, 'markdown') and vim.treesitter.language.add('markdown') then
    vim.health.ok('transcripts are highlighted as Markdown')
  else
    vim.health.info('no Markdown parser: transcripts are not highlighted')
  end
end

function M.check()
  local config, client = require('deputy.config'), require('deputy.client')
  vim.health.start('deputy')
  check_version()
  check_options(config)
  check_server(client)
  check_model(config)
  check_parser()
end

return M
