package oracle

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// ReadCases calls visit for every case of a JSON-lines file, .gz by suffix,
// with the number of its line.
func ReadCases(path string, visit func(line int, c *Case) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var reader io.Reader = file
	if strings.HasSuffix(path, ".gz") {
		unpacked, err := gzip.NewReader(file)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		defer unpacked.Close()
		reader = unpacked
	}
	lines := bufio.NewReaderSize(reader, 1<<20)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return fmt.Errorf("%s: %w", path, err)
		}
		if len(bytes.TrimSpace(line)) > 0 {
			c := &Case{}
			if err := json.Unmarshal(line, c); err != nil {
				return fmt.Errorf("%s:%d: %w", path, number, err)
			}
			if err := visit(number, c); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
	}
}

// Writer writes cases as JSON lines.
type Writer struct {
	buffer *bufio.Writer
	closes []io.Closer
}

// NewWriter writes to path, packed if it ends in .gz; "" and "-" are stdout.
func NewWriter(path string) (*Writer, error) {
	w := &Writer{}
	var sink io.Writer = os.Stdout
	if path != "" && path != "-" {
		file, err := os.Create(path)
		if err != nil {
			return nil, err
		}
		sink, w.closes = file, append(w.closes, file)
	}
	if strings.HasSuffix(path, ".gz") {
		packed := gzip.NewWriter(sink)
		sink, w.closes = packed, append(w.closes, packed)
	}
	w.buffer = bufio.NewWriterSize(sink, 1<<20)
	return w, nil
}

// Write adds one value as one line.
func (w *Writer) Write(value any) error {
	encoder := json.NewEncoder(w.buffer)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// Close flushes and closes; without it a packed file is cut short.
func (w *Writer) Close() error {
	err := w.buffer.Flush()
	for i := len(w.closes) - 1; i >= 0; i-- {
		if closeErr := w.closes[i].Close(); err == nil {
			err = closeErr
		}
	}
	return err
}
