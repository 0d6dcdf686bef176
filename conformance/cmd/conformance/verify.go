package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	"plimsoll.dev/conformance/oracle"
)

// tally counts the cases of one family.
type tally struct{ passed, failed int }

func verify(args []string) error {
	flags := flag.NewFlagSet("verify", flag.ContinueOnError)
	shown := flags.Int("show", 5, "differences to print in full")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("verify: name at least one file")
	}
	families := map[string]*tally{}
	var total tally
	for _, path := range flags.Args() {
		err := oracle.ReadCases(path, func(line int, c *oracle.Case) error {
			family, _, _ := strings.Cut(c.Name, "/")
			if families[family] == nil {
				families[family] = &tally{}
			}
			difference, err := check(c)
			if err != nil {
				difference = err.Error()
			}
			if difference == "" {
				families[family].passed++
				total.passed++
				return nil
			}
			families[family].failed++
			total.failed++
			if total.failed <= *shown {
				fmt.Printf("%s:%d: %s\n%s\n", path, line, c.Name, difference)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	names := make([]string, 0, len(families))
	for name := range families {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(os.Stdout, "%-20s %6d passed %6d failed\n", name, families[name].passed, families[name].failed)
	}
	fmt.Printf("%d passed, %d failed\n", total.passed, total.failed)
	if total.failed > 0 {
		return errDiffers
	}
	return nil
}

// check answers a case again and describes how the answer differs from the
// one it carries; "" if it does not.
func check(c *oracle.Case) (string, error) {
	if c.Sequence != nil {
		return checkSequence(c)
	}
	got, err := oracle.Decide(c)
	if err != nil {
		return "", err
	}
	return compare(c.Expect, got)
}

// checkSequence describes the first step that is decided differently: all that
// follow it start from another state.
func checkSequence(c *oracle.Case) (string, error) {
	expects, err := oracle.Replay(c)
	if err != nil {
		return "", err
	}
	for i, got := range expects {
		difference, err := compare(c.Sequence[i].Expect, got)
		if difference != "" || err != nil {
			return fmt.Sprintf("step %d:\n%s", i, difference), err
		}
	}
	return "", nil
}

func compare(want, got *oracle.Expect) (string, error) {
	wanted, err := normalise(want)
	if err != nil {
		return "", err
	}
	given, err := normalise(got)
	if err != nil {
		return "", err
	}
	if reflect.DeepEqual(wanted, given) {
		return "", nil
	}
	var lines []string
	for _, field := range []string{"preEnqueue", "preFilter", "feasible", "rejected", "scores", "totals", "preemption", "selected"} {
		if !reflect.DeepEqual(wanted[field], given[field]) {
			w, _ := json.Marshal(wanted[field])
			g, _ := json.Marshal(given[field])
			lines = append(lines, fmt.Sprintf("  %s\n    want %s\n    got  %s", field, w, g))
		}
	}
	return strings.Join(lines, "\n"), nil
}

// normalise compares as JSON does, so that an absent field is an absent field.
func normalise(expect *oracle.Expect) (map[string]any, error) {
	data, err := json.Marshal(expect)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	return fields, json.Unmarshal(data, &fields)
}
