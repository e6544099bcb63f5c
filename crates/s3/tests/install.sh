#!/usr/bin/env bash
# Fetches the server that the tests of s3:// talk to, into target/s3-tools: s3rver in a fork that is kept up to date, 15 MB
# with everything it needs. It checks signatures of version 4, in headers and in URLs. MinIO and SeaweedFS are no packages of
# Debian. The version is pinned here. Does nothing when it is there already.
set -euo pipefail
cd "$(dirname "$0")/../../.."
source crates/shellkeep/tests/support/tools.sh

S3RVER=@20minutes/s3rver@5.0.0

tools s3-tools "the server that tests s3://" "$S3RVER"
with_npm "$S3RVER"
# It differs from S3 in two places, and is corrected there: it takes the path of a bucket to be signed without the slash that was
# sent, and its lists have the name space of an earlier draft.
lib=$home/node_modules/@20minutes/s3rver/lib
sed -i 's#^    canonicalRequest\.uri,$#    canonicalRequest.uri.replace(/^\\/[^/]+$/, "$\&/"),#' "$lib/signature/v4.js"
grep -q 'canonicalRequest.uri.replace' "$lib/signature/v4.js" || unavailable "$S3RVER is not as it was"
grep -rlZ 'http://doc.s3.amazonaws.com/2006-03-01' "$lib" \
  | xargs -0 -r sed -i 's#http://doc.s3.amazonaws.com/2006-03-01/\?#http://s3.amazonaws.com/doc/2006-03-01/#g'
complete
