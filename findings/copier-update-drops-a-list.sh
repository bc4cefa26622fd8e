#!/bin/sh
# Copier 9.19.1
#
# A template removes one choice of a multiselect question. `copier update` then ignores the recorded list
# as a whole, and takes the default: the other choices of the owner are gone from the answers and from
# the files. Nothing is printed about it, and the exit code is 0. A value that is passed with --data
# is refused: "ValueError: ... Invalid choice".
# Seen: recorded [ema, swa], and after the update [amp].
# Way out: never remove a choice. Or read the recorded answers before the update, and compare.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet copier==9.19.1
copier="$work/venv/bin/copier"
export GIT_CONFIG_GLOBAL="$work/gitconfig"
git config --file "$GIT_CONFIG_GLOBAL" user.name me
git config --file "$GIT_CONFIG_GLOBAL" user.email me@localhost

release() {  # Tags a version of the template with these choices.
    printf 'tricks:\n  type: str\n  multiselect: true\n  default: [amp]\n  choices: [%s]\n' "$2" > copier.yml
    git add --all
    git commit --quiet --message "$1"
    git tag "$1"
}

mkdir "$work/template"
cd "$work/template"
git init --quiet
printf '{{ _copier_answers|to_nice_yaml }}' > '{{ _copier_conf.answers_file }}.jinja'
printf '{%% for name in tricks %%}{{ name }} {%% endfor %%}' > tricks.txt.jinja
release v1 "amp, ema, swa"
release v2 "amp, swa"

"$copier" copy --quiet --defaults --vcs-ref v1 --data "tricks=[ema, swa]" "$work/template" ../project
cd ../project
git init --quiet
git add --all
git commit --quiet --message start
echo "before: $(cat tricks.txt)"
"$copier" update --defaults > ../output 2>&1 && echo "exit code 0"
echo "after: $(cat tricks.txt)"
cat ../output
test "$(cat tricks.txt)" = "amp "
git reset --quiet --hard
if "$copier" update --defaults --data "tricks=[ema, swa]" > ../output 2>&1; then exit 1; fi
echo "with --data: $(tail -n 1 ../output)"
