// SPDX-License-Identifier: Apache-2.0

package naming

import "strings"

// BusyHeader is in the answers of a replica that takes no more calls at once. Such a call has not reached the user's code.
const BusyHeader = "X-Sless-Busy"

// internalHeaders begin the names of what the parts of sless, and the autoscaler between them, tell each other.
var internalHeaders = []string{"X-Sless-", "X-Keda-"}

// IsInternalHeader tells whether a header of an answer, in canonical form, is one by which the parts of sless tell each other
// something. A handler must not be able to say it, not even by passing on the answer of another function, and no caller gets
// it as it is.
func IsInternalHeader(name string) bool {
	for _, prefix := range internalHeaders {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
