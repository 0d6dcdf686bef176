package generate

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"plimsoll.dev/conformance/oracle"
)

func TestSameSeedGivesSameCase(t *testing.T) {
	for _, family := range Families() {
		for seed := range uint64(20) {
			first, second := encoded(t, family, seed), encoded(t, family, seed)
			if !bytes.Equal(first, second) {
				t.Errorf("%s/%d: two different cases from one seed", family, seed)
			}
			if bytes.Equal(first, encoded(t, family, seed+1)) {
				t.Errorf("%s/%d: the next seed gives the same case", family, seed)
			}
		}
	}
}

func encoded(t *testing.T, family string, seed uint64) []byte {
	t.Helper()
	c, err := Case(family, seed)
	if err != nil {
		t.Fatal(err)
	}
	c.Name = ""
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestUnknownFamilyIsAnError(t *testing.T) {
	if _, err := Case("nonsense", 1); err == nil {
		t.Error("want an error that names the families, got none")
	}
}

func TestEveryFamilyCanBeAnswered(t *testing.T) {
	for _, family := range Families() {
		answered := 0
		for seed := range uint64(4) {
			c, err := Case(family, seed)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := oracle.Decide(c); err == nil {
				answered++
			}
		}
		if answered == 0 {
			t.Errorf("%s: no case of four could be answered", family)
		}
	}
}

func TestSequenceReplaysFromItsFile(t *testing.T) {
	var c *oracle.Case
	var err error
	for seed := uint64(1); seed < 5; seed++ {
		if c, err = Sequence(seed, 12); !errors.Is(err, oracle.ErrUnstable) {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Sequence) != 12 {
		t.Fatalf("want 12 steps, got %d", len(c.Sequence))
	}
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	read := &oracle.Case{}
	if err := json.Unmarshal(data, read); err != nil {
		t.Fatal(err)
	}
	if err := oracle.Confirm(read); err != nil {
		t.Errorf("replay of the written sequence: %v", err)
	}
}
