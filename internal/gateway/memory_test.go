// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"io"
	"net/http"
	"runtime"
	"testing"
)

const (
	largeBody = 256 << 20
	// maxHeapGrowth is far below the body, and far above the buffers of one call.
	maxHeapGrowth = 24 << 20
)

// zeros is a body that takes no memory. It notes the largest heap that was seen while it was read.
type zeros struct {
	left int64
	peak uint64
	next int64
}

func (z *zeros) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), z.left))
	clear(p[:n])
	z.left -= int64(n)
	if z.left <= z.next {
		z.next = z.left - 4<<20
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		z.peak = max(z.peak, m.HeapAlloc)
	}
	return n, nil
}

// TestLargeBodyInConstantMemory sends 256 MiB to a function that sends them back. Client, gateway and function share
// the heap that is measured. It is not parallel, so that no other test's memory counts.
func TestLargeBodyInConstantMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("moves 512 MiB")
	}
	g := startFunction(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		_, _ = io.Copy(w, r.Body)
	})
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	body := &zeros{left: largeBody, next: largeBody}
	res, err := newClient(t).Do(newRequest(t, http.MethodPost, g.url+"/fn/demo/hello", body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if n, err := io.Copy(io.Discard, res.Body); n != largeBody || err != nil {
		t.Errorf("got %d bytes back, %v", n, err)
	}
	growth := int64(body.peak) - int64(before.HeapAlloc)
	t.Logf("the heap grew by at most %.1f MiB", float64(growth)/(1<<20))
	if growth > maxHeapGrowth {
		t.Errorf("the heap grew by %d bytes", growth)
	}
}
