#!/bin/sh
# Installs launch from the files that `make dist` makes, after their checksums were compared. The action beside it and
# tools/dist/Containerfile run it. Usage: install.sh FROM VERSION PREFIX [SHA256]
#
# FROM is a folder, or the address of one. VERSION is v1.2.3 or 1.2.3; of a folder that has one version it may be "".
# SHA256 is the checksum of the tarball, for those who do not want to believe the SHA256SUMS that lies beside it.
set -eu
fail() { echo "install.sh: $*" >&2; exit 1; }
[ $# -ge 3 ] || fail "usage: install.sh FROM VERSION PREFIX [SHA256]"
from=$1 version=${2#v} pinned=${4-}
[ "$(uname -s)" = Linux ] || fail "launch runs on Linux, and this is $(uname -s)"
case $(uname -m) in
x86_64) arch=amd64 ;;
aarch64) arch=arm64 ;;
*) fail "there is no launch for $(uname -m)" ;;
esac
if [ -z "$version" ]; then
	given=$#
	set -- "$from"/launch-ml-*-linux-$arch.tar.gz "$@"
	[ $# = $((given + 1)) ] && [ -e "$1" ] || fail "$from has no tarball for $arch, or several: which version?"
	version=${1##*/launch-ml-} version=${version%-linux-*}
	shift
fi
mkdir -p "$3"
prefix=$(cd "$3" && pwd)
file=launch-ml-$version-linux-$arch.tar.gz
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

get() {
	case $from in
	*://*) curl -fsSL --retry 3 -o "$work/$1" "$from/$1" ;;
	*) cp "$from/$1" "$work/$1" ;;
	esac || fail "cannot get $1 from $from"
}

get "$file"
get SHA256SUMS
cd "$work"
grep -F "  $file" SHA256SUMS > sum || fail "SHA256SUMS of $from has no $file"
sha256sum -c sum || fail "$file is not the file that SHA256SUMS has"
[ -z "$pinned" ] || echo "$pinned  $file" | sha256sum -c - || fail "$file has another checksum than the one that was asked for"
tar -C "$prefix" --strip-components=1 -xzf "$file"
"$prefix/bin/launch" version
