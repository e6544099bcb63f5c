#!/usr/bin/env bash
# Fetches the server that the tests of s3:// talk to, into target/s3-tools: s3rver in a fork that is kept up to date, 15 MB
# with everything it needs. It checks signatures of version 4, in headers and in URLs. MinIO and SeaweedFS are no packages of
# Debian. The version is pinned here. Does nothing when it is there already.
set -euo pipefail
cd "$(dirname "$0")/../../.."

S3RVER=@20minutes/s3rver@5.0.0

home=target/s3-tools
if [[ -e $home/installed && $(<"$home/installed") == "$S3RVER" ]]; then exit 0; fi
mkdir -p "$home"

# The tests say why they were skipped, with these words.
unavailable() {
  echo "$1" >"$home/unavailable"
  echo "the server that tests s3:// is not available: $1" >&2
  exit 1
}

command -v npm >/dev/null 2>&1 || unavailable "npm is missing"
npm install --prefix "$home" --silent --no-audit --no-fund --ignore-scripts "$S3RVER" || unavailable "npm could not fetch $S3RVER"
# It differs from S3 in two places, and is corrected there: it takes the path of a bucket to be signed without the slash that was
# sent, and its lists have the name space of an earlier draft.
lib=$home/node_modules/@20minutes/s3rver/lib
sed -i 's#^    canonicalRequest\.uri,$#    canonicalRequest.uri.replace(/^\\/[^/]+$/, "$\&/"),#' "$lib/signature/v4.js"
grep -q 'canonicalRequest.uri.replace' "$lib/signature/v4.js" || unavailable "$S3RVER is not as it was"
grep -rlZ 'http://doc.s3.amazonaws.com/2006-03-01' "$lib" \
  | xargs -0 -r sed -i 's#http://doc.s3.amazonaws.com/2006-03-01/\?#http://s3.amazonaws.com/doc/2006-03-01/#g'
rm -f "$home/unavailable"
echo "$S3RVER" >"$home/installed"
