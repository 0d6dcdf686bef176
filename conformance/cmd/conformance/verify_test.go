package main

import (
	"errors"
	"path/filepath"
	"testing"

	"plimsoll.dev/conformance/generate"
	"plimsoll.dev/conformance/oracle"
)

func TestVerifyAcceptsItsOwnAnswersAndNoOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cases.jsonl.gz")
	if err := run([]string{"generate", "-seed", "3", "-count", "20", "-o", path}); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"verify", path}); err != nil {
		t.Errorf("own answers: %v", err)
	}

	c, err := generate.Case("images", 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := oracle.Answer(c); err != nil {
		t.Fatal(err)
	}
	c.Expect.Totals[c.Expect.Feasible[0]]++
	wrong := filepath.Join(t.TempDir(), "wrong.jsonl")
	out, err := oracle.NewWriter(wrong)
	if err != nil {
		t.Fatal(err)
	}
	if err := out.Write(c); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"verify", "-show", "0", wrong}); !errors.Is(err, errDiffers) {
		t.Errorf("a wrong total: want %v, got %v", errDiffers, err)
	}
}

func TestWrongCommandsAreErrors(t *testing.T) {
	for _, args := range [][]string{nil, {"nonsense"}, {"verify"}, {"generate"}, {"generate", "-count", "1", "-family", "nonsense"}, {"verify", "absent.jsonl"}} {
		if err := run(args); err == nil {
			t.Errorf("%q: want an error, got none", args)
		}
	}
}
