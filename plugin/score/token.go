package score

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// tokenFile is a bearer token in a file that may be replaced at any time, as Kubernetes does with those it mounts.
type tokenFile struct {
	path string

	mu       sync.Mutex
	token    string
	size     int64
	modified time.Time
}

// newTokenFile reads a token for the first time.
func newTokenFile(path string) (*tokenFile, error) {
	t := &tokenFile{path: path}
	if err := t.refresh(); err != nil {
		return nil, err
	}
	return t, nil
}

// current gives the token that is in the file now, and the last one where the file cannot be read.
func (t *tokenFile) current() (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.refresh()
	return t.token, err
}

func (t *tokenFile) refresh() error {
	info, err := os.Stat(t.path)
	if err != nil {
		return fmt.Errorf("cannot read the token: %w", err)
	}
	if info.ModTime().Equal(t.modified) && info.Size() == t.size {
		return nil
	}
	text, err := os.ReadFile(t.path)
	if err != nil {
		return fmt.Errorf("cannot read the token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return fmt.Errorf("the token file %s is empty", t.path)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("the token file %s does not hold one token alone", t.path)
	}
	t.token, t.size, t.modified = token, info.Size(), info.ModTime()
	return nil
}
