--- The server that belongs to this plugin: the repository that contains both, and where it is installed.

local version = require('deputy.version')

local M = {}

--- The repository. A plugin manager may load the plugin through the links at its root.
---@return string
function M.repository()
  local here = debug.getinfo(1, 'S').source:sub(2)
  return vim.fn.fnamemodify(vim.uv.fs_realpath(here) or here, ':p:h:h:h:h:h')
end

--- Neovim's own folder for what the plugin installs.
---@return string
function M.storage()
  return vim.fs.joinpath(vim.fn.stdpath('data'), 'deputy')
end

--- The folder of the installed server. It uses the repository in place, so that both always have one version.
---@return string
function M.folder()
  return vim.fs.joinpath(M.storage(), 'server')
end

---@return string
function M.requirements()
  return vim.fs.joinpath(M.repository(), 'requirements.txt')
end

local function content(path)
  local file = io.open(path, 'rb')
  local text = file and file:read('*a')
  if file then
    file:close()
  end
  return text
end

--- The state of the installation: `none`, `broken` (not complete), `outdated` (for other requirements or another
--- repository) or `ready`.
---@return 'none'|'broken'|'outdated'|'ready'
function M.state()
  local text = content(vim.fs.joinpath(M.folder(), 'install.json'))
  if not text then
    return 'none'
  end
  local valid, found = pcall(vim.json.decode, text)
  if not valid or found.state ~= 'ready' or vim.fn.executable(M.command()) ~= 1 then
    return 'broken'
  end
  local requirements = content(M.requirements())
  local same = found.package == M.repository() and requirements and found.requirements == vim.fn.sha256(requirements)
  return same and 'ready' or 'outdated'
end

--- The command of the installed server.
---@return string
function M.command()
  return vim.fs.joinpath(M.folder(), 'bin', 'deputy')
end

--- The arguments of the installer.
---@return string[]
function M.arguments()
  return { '--into', M.folder(), '--requirements', M.requirements(), '--package', M.repository() }
end

---@param name 'install.py'|'get-uv.sh'
---@return string
function M.program(name)
  return vim.fs.joinpath(M.repository(), 'editors', 'installer', name)
end

--- Whether a server's interface is at least that of the plugin, as semantic versions promise it.
---@param found string
---@param wanted string?
---@return boolean
function M.fits(found, wanted)
  local one, other = vim.version.parse(found), vim.version.parse(wanted or version)
  if not one or not other or one.major ~= other.major or (one.major == 0 and one.minor ~= other.minor) then
    return false
  end
  return vim.version.ge({ one.major, one.minor, one.patch }, { other.major, other.minor, other.patch })
end

return M
