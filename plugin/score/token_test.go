package score

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func writeFile(t *testing.T, path, text string, modified time.Time) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, modified, modified); err != nil {
		t.Fatal(err)
	}
}

func TestATokenThatChangesIsReadAgain(t *testing.T) {
	server := newServer(t)
	path, written := filepath.Join(t.TempDir(), "token"), time.Now()
	writeFile(t, path, "first\n", written)
	args := argsFor(server.URL)
	args.TokenFile = path
	bench := newBench(t, args, makeNodes(2))
	sends := func(when, want string) {
		t.Helper()
		bench.schedule(t, makePod("web"))
		if got := server.headers[len(server.headers)-1].Get("Authorization"); got != "Bearer "+want {
			t.Errorf("%s: %q, want the token %s", when, got, want)
		}
	}
	sends("at first", "first")
	writeFile(t, path, "other\n", written.Add(time.Second))
	sends("after a change", "other")
	writeFile(t, path, "", written.Add(2*time.Second))
	sends("while the file is empty", "other")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	sends("while there is no file", "other")
	writeFile(t, path, "third", written.Add(3*time.Second))
	sends("when there is one again", "third")
}

func TestAFileWithoutATokenIsRefused(t *testing.T) {
	for name, text := range map[string]string{"empty": " \n", "two lines": "one\ntwo\n", "not ASCII": "tökén"} {
		path := filepath.Join(t.TempDir(), "token")
		writeFile(t, path, text, time.Now())
		_, err := newTokenFile(path)
		if err == nil || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "tökén") {
			t.Errorf("%s: error %v, want one that names the file and not what is in it", name, err)
		}
	}
}

func TestOnlyTheGivenCertificatesAreTrusted(t *testing.T) {
	plain := newServer(t)
	server := httptest.NewTLSServer(plain)
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	writeFile(t, ca, string(text), time.Now())

	args := argsFor(server.URL)
	refused := counted(t, errorsTotal, reasonRefused)
	if got := newBench(t, args, makeNodes(2)).schedule(t, makePod("web")); !allEqual(got) || refused() != 1 {
		t.Errorf("scores %v of a server that nobody trusts", got)
	}
	args.CAFile = ca
	if got := newBench(t, args, makeNodes(2)).schedule(t, makePod("web")); allEqual(got) {
		t.Errorf("scores %v, want the server's", got)
	}
	writeFile(t, ca, "no certificate", time.Now())
	if _, err := newTransport(ca); err == nil || !strings.Contains(err.Error(), ca) {
		t.Errorf("error %v, want one that names the file", err)
	}
}
