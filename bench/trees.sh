#!/bin/sh
# trees.sh FOLDER: fetch the documentation that bench/questions.py asks about into FOLDER, from PyPI
# and Debian (bookworm). Needs pip, apt-get and dpkg. Then: KB_TREES=FOLDER make quality
set -eu
folder=$(mkdir -p "$1" && cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

python3 -m pip download --quiet --no-deps --no-binary :all: django==5.0.6
apt-get download sqlite3-doc git-doc r-cran-dplyr r-cran-data.table
for package in *.deb; do dpkg -x "$package" debian; done
tar xzf [Dd]jango-5.0.6.tar.gz

mkdir -p "$folder/django" "$folder/sqlite" "$folder/git" "$folder/dplyr" "$folder/data.table"
(cd [Dd]jango-5.0.6/docs && find . -name '*.txt' ! -path './releases/*' ! -path './internals/*' \
  ! -path './man/*' ! -path '*/gis/*' | tar cf - -T -) | tar xf - -C "$folder/django"
cp debian/usr/share/doc/sqlite3/*.html "$folder/sqlite"
cp debian/usr/share/doc/git-doc/git*.html "$folder/git"
# Lists of references, protocols and formats, which would double the time to embed.
(cd "$folder/sqlite" && rm -f requirements.html oldnews.html news.html changes.html doc_*.html \
  syntaxdiagrams.html sitemap.html keyword_index.html capi3ref.html fts3.html session*.html \
  opcode.html vdbe.html lemon.html testing.html th3.html)
(cd "$folder/git" && rm -f gitprotocol* gitformat* git-cvs* gitcvs* gitweb* git-svn.html \
  git-fast-*.html git-http-*.html gitremote-helpers.html git-remote-helpers.html)
for package in dplyr data.table; do
  cp debian/usr/lib/R/site-library/$package/doc/*.Rmd "$folder/$package"
  cp debian/usr/lib/R/site-library/$package/NEWS.md "$folder/$package"
done
find "$folder" -type f | wc -l
