// SPDX-License-Identifier: Apache-2.0

package invoke

import "sync"

// copyBufferSize is the most of an answer that is held at once.
const copyBufferSize = 32 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, copyBufferSize); return &b }}
