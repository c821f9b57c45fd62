"""Scripts, read as a shell would run them; the expectations are what bash gave to a program named vllm."""

import pytest

from kvplan.serve import read_text
from kvplan.serve.launch import launches
from kvplan.serve.marks import clean, unmark


def words(text: str) -> list[list[str]]:
    return [[str(unmark(word)) for word in launch.args] for launch in launches(clean(text))]


@pytest.mark.parametrize(
    ("script", "args"),
    [
        (
            'vllm serve M --a \'x y\' --b "z \\"q\\" \\$n \\\\ \\x" --c=a\\ b',
            ["M", "--a", "x y", "--b", 'z "q" $n \\ \\x', "--c=a b"],
        ),
        ('A=\'1 2\'; vllm serve M $A "$A" x$A"y"$A', ["M", "1", "2", "1 2", "x1", "2y1", "2"]),
        ("A=; vllm serve M $A \"$A\" ''", ["M", "", ""]),
        (
            'X=(a \'b c\' "d"); vllm serve M "${X[@]}" ${X[@]} "p${X[@]}q"',
            ["M", "a", "b c", "d", "a", "b", "c", "d", "pa", "b c", "dq"],
        ),
        ('X=(--tp 2)\nX+=(--pp 4 "e f")\nvllm serve M "${X[@]}"', ["M", "--tp", "2", "--pp", "4", "e f"]),
        ('A="--x 1"; A+=" --y 2"; vllm serve M $A', ["M", "--x", "1", "--y", "2"]),
        ("B=3; vllm serve M ${B:-4} ${C-5} ${B:+yes} --j ${D:+no}", ["M", "3", "5", "yes", "--j"]),
        (
            "N=8; vllm serve M $((2*1024)) $((1<<14)) $((7/2)) $((-7/2)) $((N*2))",
            ["M", "2048", "16384", "3", "-3", "16"],
        ),
        ("vllm serve M \\\n  --a 1 \\\n  --b 2 # comment\n", ["M", "--a", "1", "--b", "2"]),
        ("vllm serve M > out.log --b 2 2>&1 | tee log", ["M", "--b", "2"]),
        ("if true; then vllm serve M --a 1; fi", ["M", "--a", "1"]),
        ("f() { vllm serve M --d; }; f", ["M", "--d"]),
        ("case x in x) vllm serve M --g;; esac", ["M", "--g"]),
        ("bash -c 'vllm serve M --x \"a b\"'", ["M", "--x", "a b"]),
        ('A=5; bash -c "vllm serve M --x $A --y \\"q r\\""', ["M", "--x", "5", "--y", "q r"]),
        ('J=\'{"a": 1}\'; vllm serve M --j "$J"', ["M", "--j", '{"a": 1}']),
        ("J='{\"a\": 1}'; vllm serve M --j $J", ["M", "--j", '{"a":', "1}"]),
        ("vllm serve M --j $'a\\tb\\'c'", ["M", "--j", "a\tb'c"]),
        ('MODEL="${MODEL:-a/b}"\nvllm serve "$MODEL" -tp "${TP:-8}"', ["a/b", "-tp", "8"]),
        ("vllm serve M 'a\nb' \"c\\\nd\"", ["M", "a\nb", "cd"]),
        ("ARGS=(\n  --a 1 # note\n  --b 2\n)\nvllm serve M ${ARGS[@]}", ["M", "--a", "1", "--b", "2"]),
        ("vllm serve M ${Q:=x} $Q", ["M", "x", "x"]),
        ("true; # vllm serve NOPE\necho vllm serve NOPE; exec vllm serve M", ["M"]),
        ("( $(which vllm) serve M ) &", ["M"]),
        (
            "X=/a/b/c-FP8; vllm serve ${X##*/} ${X%/*} ${X%-FP8} ${X/b/q} ${X//[/]}",
            ["c-FP8", "/a/b", "/a/b/c", "/a/q/c-FP8", "${X//[/]}"],
        ),
        ("M=a/b/c; vllm serve ${M//\\//-} ${M/\\//_} ${M/b\\/c/x} ${M//'/'/:}", ["a-b-c", "a_b/c", "a/x", "a:b:c"]),
        ("A=abcd; vllm serve ${A:1:2} ${A: -1} ${A^^} ${A^} ${#A} ${A/%d/z}", ["bc", "d", "ABCD", "Abcd", "4", "abcz"]),
        ('A=(a "b c" d); vllm serve ${#A[@]} "${A[@]:1}" "${A[-1]}" "${A[*]}"', ["3", "b c", "d", "d", "a b c d"]),
        ("I=1; A=(a b); vllm serve ${A[$I]} ${A[I]} ${A[I-1]}", ["b", "b", "a"]),
        ('P=/a/b; vllm serve $(dirname $P) `basename $P` "$(echo -n x  y)" $(printf "%s" z)', ["/a", "b", "x y", "z"]),
        ("vllm serve M $(cat <<EOF\nx ${N:-2}\nEOF\n)", ["M", "x", "2"]),
        ('J=$(cat <<\'EOF\'\n{"a": 1}\nEOF\n)\nvllm serve M "$J"', ["M", '{"a": 1}']),
        ("read -r -d '' J <<'EOF' || true\n{\"a\": 1}\nEOF\nvllm serve M \"$J\"", ["M", '{"a": 1}']),
        ("vllm serve ${O:-'{\"a\": 1}'} ${P:-b c}", ['{"a": 1}', "b", "c"]),
        ("X=1; X=5 Y=$X; vllm serve $X $Y", ["5", "5"]),
        ("T=a; (T=b); vllm serve $T", ["a"]),
        ("T=a; unset T; vllm serve ${T:-b}", ["b"]),
        ('set -- a b c; shift; vllm serve $1 $# "$@"', ["b", "2", "b", "c"]),
        ('bash -c \'vllm serve "$0" "$@"\' M -tp 2', ["M", "-tp", "2"]),
        ("vllm serve M --max-model-len=$[8*1024]", ["M", "--max-model-len=8192"]),
        ("vllm serve $'\\x41\\t\\101' $\"b\"", ["A\tA", "b"]),
        (": vllm serve N; vllm serve M", ["M"]),
    ],
)
def test_words_are_what_bash_passes(script: str, args: list[str]) -> None:
    assert words(script) == [args]


@pytest.mark.parametrize(
    ("script", "args"),
    [
        ('set M=C:\\m\\x\nvllm serve %M% ^\n --a "{\\"k\\": 1}" -tp 2\n', ["C:\\m\\x", "--a", '{"k": 1}', "-tp", "2"]),
        ("vllm serve M `\n  --a '{\"k\": 1}' `\n  -tp 2\n", ["M", "--a", '{"k": 1}', "-tp", "2"]),
        ("vllm serve M ^ \n --a 1\n", ["M", "--a", "1"]),
        ('"C:\\Program Files\\vllm.exe" serve "C:\\m\\x" -tp 2', ["C:\\m\\x", "-tp", "2"]),
    ],
)
def test_windows_lines_keep_their_backslashes(script: str, args: list[str]) -> None:
    assert words(script) == [args]


def test_environment_is_what_was_exported_and_the_prefix() -> None:
    script = "export VLLM_A=1 VLLM_B='x y'\nVLLM_C=2\nD=3; export D\nVLLM_E=4 env VLLM_F=5 vllm serve M"
    (launch,) = launches(script)
    assert launch.env == {"VLLM_A": "1", "VLLM_B": "x y", "D": "3", "VLLM_E": "4", "VLLM_F": "5"}


def test_a_heredoc_is_a_file_of_the_script() -> None:
    script = (
        "N=8\ncat > a.yaml <<EOF\nmax-num-seqs: $N\nEOF\ncat <<'E2' > b.yaml\nx: $N\nE2\nvllm serve M --config a.yaml"
    )
    (launch,) = launches(script)
    assert launch.files == {"a.yaml": "max-num-seqs: 8\n", "b.yaml": "x: $N\n"}


def test_every_branch_that_starts_a_server_is_read() -> None:
    script = "if [ $1 = a ]; then\n vllm serve A\nelse\n vllm serve B -tp 2\nfi"
    assert words(script) == [["A"], ["B", "-tp", "2"]]


def test_a_forgotten_backslash_is_told_and_the_line_read_on() -> None:
    (launch,) = launches("vllm serve M --a 1\n  --b 2\n  -tp 4\nother")
    assert (launch.args, len(launch.errors)) == (["M", "--a", "1", "--b", "2", "-tp", "4"], 1)
    assert "the line before --b has no line continuation" in launch.errors[0]


def test_a_placeholder_is_no_redirection() -> None:
    assert words("vllm serve <MODEL> -tp <N> --port=<P>") == [["<MODEL>", "-tp", "<N>", "--port=<P>"]]


def test_doubling_a_variable_stays_small() -> None:
    assert words("A=xxxxxxxx\n" + "A=$A$A\n" * 60 + "vllm serve M --x $A") == [["M", "--x", "$A"]]


@pytest.mark.parametrize(
    ("script", "word"),
    [
        ("f() { vllm serve M ${1:-2}; }; f 4", "${1:-2}"),
        ("T=a; f() { T=b; }; f; vllm serve M $T", "$T"),
        ("N=4; ((N*=2)); vllm serve M $N", "$N"),
        ("N=4; let N=N*2; vllm serve M $N", "$N"),
        ("N=4; read -r N; vllm serve M $N", "$N"),
        ("P=1; : $((P++)); vllm serve M $P", "$P"),
        ("vllm serve M $(nvidia-smi -L | wc -l)", "$(nvidia-smi -L | wc -l)"),
        ("vllm serve M $(echo $(hostname))", "$(echo $(hostname))"),
        ("X=ab; vllm serve M ${X@Q}", "${X@Q}"),
    ],
)
def test_what_only_running_would_tell_stays_as_it_is_written(script: str, word: str) -> None:
    assert words(script) == [["M", word]]


@pytest.mark.parametrize(
    ("script", "env"),
    [
        ("export VLLM_A=1; env -u VLLM_A vllm serve M", {}),
        ("export VLLM_A=1; env -i VLLM_B=2 vllm serve M", {"VLLM_B": "2"}),
        ("export VLLM_A=1; sudo VLLM_B=2 vllm serve M", {"VLLM_B": "2"}),
        ("export VLLM_A=1; sudo -E vllm serve M", {"VLLM_A": "1"}),
        ("set -a; VLLM_A=1; set +a; VLLM_B=2; vllm serve M", {"VLLM_A": "1"}),
        ("(export VLLM_A=1); vllm serve M", {}),
        ("export VLLM_A=1; unset VLLM_A; vllm serve M", {}),
    ],
)
def test_the_environment_is_what_the_program_gets(script: str, env: dict[str, str]) -> None:
    (launch,) = launches(clean(script))
    assert {name: value for name, value in launch.env.items() if name.startswith("VLLM_")} == env


def test_a_no_break_space_parts_no_words_and_is_told() -> None:
    (deployment,) = read_text("vllm serve M\u00a0-tp 2")
    assert deployment.errors[0].startswith("'M -tp' holds a no-break space")
