#pragma once

#include <gtest/gtest.h>

#include "fovea/error.h"

// Expects the expression to throw an Error of this code whose message, place and hint contain the given texts.
#define EXPECT_ERROR(expression, expected_code, message_part, where_part, hint_part)                 \
  try {                                                                                              \
    static_cast<void>(expression);                                                                   \
    ADD_FAILURE() << "expected an error: " #expression;                                              \
  } catch (const ::fovea::Error& error) {                                                            \
    EXPECT_EQ(error.code(), expected_code) << error.what();                                          \
    EXPECT_NE(error.message().find(message_part), std::string::npos) << "message: " << error.what(); \
    EXPECT_NE(error.where().find(where_part), std::string::npos) << "place: " << error.what();       \
    EXPECT_NE(error.hint().find(hint_part), std::string::npos) << "hint: " << error.what();          \
  }                                                                                                  \
  static_cast<void>(0)
