#!/bin/sh
# Downloads uv into FOLDER by uv's own installer, which changes no PATH and no shell profile: get-uv.sh FOLDER
# DEPUTY_UV_INSTALLER names another address of the installer, for example on a mirror.
set -eu
folder=$1
url=${DEPUTY_UV_INSTALLER:-https://astral.sh/uv/install.sh}
mkdir -p "$folder"
# Completely downloaded before it runs.
script=$folder/installer.sh
trap 'rm -f "$script"' EXIT
if command -v curl >/dev/null 2>&1; then
  curl --fail --silent --show-error --location --connect-timeout 20 --max-time 300 --output "$script" "$url"
elif command -v wget >/dev/null 2>&1; then
  wget --quiet --timeout=20 --output-document="$script" "$url"
else
  echo "Neither curl nor wget is installed." >&2
  exit 1
fi
UV_UNMANAGED_INSTALL=$folder sh "$script"
